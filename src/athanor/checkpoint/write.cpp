// Writing: each rank writes its slices, the ranks agree after every step, and rank 0 commits. Each step ends with an
// all-gather of the outcomes; if one rank failed, all throw, so no rank waits for a failed one.
#include <cerrno>
#include <charconv>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <system_error>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/format/staged_folder.h"
#include "athanor/checkpoint/slices.h"
#include "athanor/store/safetensors.h"

namespace athanor::checkpoint {
namespace {

constexpr size_t kWritePieceBytes = size_t{1} << 20;  // hashed, then written while it is still in the cache
constexpr const char* kWriteCall = "checkpoint";

// The outcome of a step on one rank, as it is all-gathered.
struct Outcome {
  enum Kind : int64_t { ok, misuse, system } kind = ok;
  int64_t code = 0;  // errno of an IoError
  char text[1008] = {};
};

// What the system does not give is no misuse.
void run_stage(const std::function<void()>& stage) {
  try {
    stage();
  } catch (const std::bad_alloc&) {
    throw IoError("the system gives no more memory", ENOMEM);
  } catch (const std::system_error& error) {
    throw IoError(error.what(), error.code().value());
  }
}

void agree(Group& group, const std::function<void()>& stage) {
  Outcome mine;
  std::exception_ptr failure;
  const auto note = [&](Outcome::Kind kind, int64_t code, const char* text) {
    failure = std::current_exception();
    mine.kind = kind;
    mine.code = code;
    std::strncpy(mine.text, text, sizeof(mine.text) - 1);
  };
  try {
    run_stage(stage);
  } catch (const IoError& error) {
    note(Outcome::system, error.code(), error.what());
  } catch (const std::exception& error) {
    note(Outcome::misuse, 0, error.what());
  }
  std::vector<Outcome> all(static_cast<size_t>(group.size()));
  group.all_gather(&mine, all.data(), sizeof(Outcome), Dtype::u8, kWriteCall).wait();
  if (failure) std::rethrow_exception(failure);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    all[rank].text[sizeof(all[rank].text) - 1] = 0;
    const std::string text = fmt::format("checkpoint: rank {}: {}", rank, all[rank].text);
    if (all[rank].kind == Outcome::system) throw IoError(text, static_cast<int>(all[rank].code));
    if (all[rank].kind == Outcome::misuse) throw Error(text);
  }
}

void check_content(const CheckpointContent& content) {
  check(content.step >= 0, "checkpoint: got step {}, expected one from zero up", content.step);
  canonical_state(content.state, "checkpoint");
  for (const NamedTensor& tensor : content.tensors) {
    check(tensor.read || (tensor.tensor.defined() && tensor.tensor.dtype() == Dtype::f32 &&
                          tensor.tensor.queue().device() != Device::null),
          "checkpoint: tensor '{}': expected f32 values in memory", tensor.name);
  }
  std::set<std::string> names;
  for (const CheckpointContent::File& file : content.files) {
    check(is_plain_file_name(file.name) && file.name.rfind("tensors-", 0) != 0,
          "checkpoint: got the file name '{}', expected a plain one", file.name);
    check(names.insert(file.name).second, "checkpoint: file '{}' is given twice", file.name);
  }
}

// Refuses ranks that disagree on the state: the checkpoint would be of no single step.
uint64_t state_identity(const CheckpointContent& content) {
  return hash64(fmt::format("{}\n{}", content.step, content.state));
}

struct Hash {
  uint64_t high = 0, low = 0;
  std::string hex() const { return fmt::format("{:016x}{:016x}", high, low); }
};

Hash parse_hash(const std::string& hex) {
  Hash hash;
  std::from_chars(hex.data(), hex.data() + 16, hash.high, 16);
  std::from_chars(hex.data() + 16, hex.data() + 32, hash.low, 16);
  return hash;
}

// Results of writing (checksums, sizes). Each rank fills in its own part of a table of zeros; the sum over the ranks is
// the complete table.
struct Table {
  Table(size_t num_slices, int num_ranks)
      : num_slices_(num_slices), words_(2 * num_slices + 3 * static_cast<size_t>(num_ranks), 0) {}

  void set_slice(size_t index, const Hash& hash) { set(2 * index, hash); }
  void set_shard(int rank, const Hash& header, uint64_t size_bytes) {
    set(shard(rank), header);
    words_[shard(rank) + 2] = size_bytes;
  }
  Hash slice(size_t index) const { return {words_[2 * index], words_[2 * index + 1]}; }
  Hash shard_header(int rank) const { return {words_[shard(rank)], words_[shard(rank) + 1]}; }
  uint64_t shard_bytes(int rank) const { return words_[shard(rank) + 2]; }  // zero: the rank wrote none
  void sum(Group& group) {
    group.all_reduce(words_.data(), static_cast<int64_t>(words_.size()), Dtype::i64, kWriteCall).wait();
  }

 private:
  size_t shard(int rank) const { return 2 * num_slices_ + 3 * static_cast<size_t>(rank); }
  void set(size_t at, const Hash& hash) {
    words_[at] = hash.high;
    words_[at + 1] = hash.low;
  }
  size_t num_slices_;
  std::vector<uint64_t> words_;
};

Hash write_tensor(SafetensorsWriter& writer, const NamedTensor& tensor) {
  Hash128 hash;
  const bool is_read =
      tensor.read || tensor.tensor.queue().device() != Device::cpu;  // else it is in host memory
  std::vector<float> buffer(is_read ? kWritePieceBytes / sizeof(float) : 0);
  const uint64_t size_bytes = static_cast<uint64_t>(tensor.shape().numel()) * sizeof(float);
  for (uint64_t done = 0; done < size_bytes; done += kWritePieceBytes) {
    const size_t piece = std::min<uint64_t>(kWritePieceBytes, size_bytes - done);
    const auto first = static_cast<int64_t>(done / sizeof(float));
    const auto count = static_cast<int64_t>(piece / sizeof(float));
    const void* bytes = buffer.data();
    if (tensor.read)
      tensor.read(first, count, buffer.data());
    else if (is_read)
      copy_to_host(buffer.data(), tensor.tensor.flat(first, count), piece);
    else
      bytes = static_cast<const char*>(tensor.tensor.raw()) + done;
    hash.update(bytes, piece);
    writer.append(bytes, piece);
  }
  return parse_hash(hash.hex());
}

void write_shard(Env& env, const std::string& folder, int rank, const CheckpointContent& content,
                 const SlicePlan& plan, Table& table) {
  std::map<std::string_view, size_t> mine;  // this rank's slices of the plan, by entry name
  std::vector<SafetensorsWriter::Entry> entries;
  for (size_t i = 0; i < plan.slices.size(); ++i) {
    const SlicePlan::Slice& slice = plan.slices[i];
    if (slice.writer != rank) continue;
    const ManifestSlice& listed = plan.tensors[slice.tensor].slices[slice.slice];
    mine.emplace(listed.entry, i);
    entries.push_back({listed.entry, Dtype::f32, listed.box.extent});
  }
  if (entries.empty()) return;
  // The step in the header makes its checksum specific to this checkpoint.
  SafetensorsWriter writer(env, join_path(folder, shard_name(rank)), entries,
                           {{"format", "pt"}, {"athanor.step", std::to_string(content.step)}});
  for (const StoredTensor& stored : writer.tensors()) {
    const size_t index = mine.at(stored.name);
    table.set_slice(index, write_tensor(writer, content.tensors[plan.slices[index].local]));
  }
  writer.finish();
  table.set_shard(rank, parse_hash(writer.header_hash()), writer.size_bytes());
}

Manifest make_manifest(const CheckpointContent& content, const SlicePlan& plan, int num_ranks,
                       const Table& table) {
  Manifest manifest;
  manifest.step = content.step;
  manifest.state = content.state;
  manifest.tensors = plan.tensors;
  for (size_t i = 0; i < plan.slices.size(); ++i)
    manifest.tensors[plan.slices[i].tensor].slices[plan.slices[i].slice].hash = table.slice(i).hex();
  for (int rank = 0; rank < num_ranks; ++rank)
    if (table.shard_bytes(rank) > 0)
      manifest.files.push_back(
          {shard_name(rank), table.shard_bytes(rank), table.shard_header(rank).hex(), true});
  for (const CheckpointContent::File& file : content.files) {
    Hash128 hash;
    hash.update(file.text);
    manifest.files.push_back({file.name, file.text.size(), hash.hex(), false});
  }
  return manifest;
}

void write_file(Env& env, const std::string& path, std::string_view text) {
  const auto file = env.create(path);
  file->append(text);
  file->sync();
  file->close();
}

}  // namespace

void NamedTensor::copy(int64_t first, int64_t count, float* values) const {
  if (read) return read(first, count, values);
  const Tensor part = tensor.flat(first, count);
  copy_to_host(values, part, part.size_bytes());
}

void write_checkpoint_at(Env& env, Group& group, const std::string& path, const CheckpointContent& content) {
  std::optional<StagedFolder> staged;
  const uint64_t identity = state_identity(content);
  uint64_t first[2] = {0, identity};  // rank 0's token and identity
  agree(group, [&] {
    check_content(content);
    if (group.rank() != 0) return;
    staged.emplace(env, path);
    first[0] = staged->token();
  });
  group.broadcast(first, 2, Dtype::i64, 0, kWriteCall).wait();
  const std::string folder = staged ? staged->path() : staged_path(path, first[0]);
  const SlicePlan plan = plan_slices(group, content.tensors);
  Table table(plan.slices.size(), group.size());
  agree(group, [&] {
    check(first[1] == identity, "checkpoint: this rank's step or state is not that of rank 0");
    write_shard(env, folder, group.rank(), content, plan, table);
  });
  table.sum(group);
  agree(group, [&] {
    if (!staged) return;
    for (const CheckpointContent::File& file : content.files)
      write_file(env, join_path(folder, file.name), file.text);
    write_file(env, join_path(folder, kManifestName),
               print_manifest(make_manifest(content, plan, group.size(), table)));
    staged->commit();
  });
}

std::string write_checkpoint(Env& env, Group& group, const std::string& folder,
                             const CheckpointContent& content) {
  std::string path = join_path(folder, checkpoint_name(content.step));
  write_checkpoint_at(env, group, path, content);
  return path;
}

}  // namespace athanor::checkpoint
