// Writing: each rank writes its slices, the ranks agree after every step, and rank 0 commits. Each step ends with an
// all-gather of the outcomes; if one rank failed, all throw, so no rank waits for a failed one.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <new>
#include <optional>
#include <system_error>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/format/shards.h"
#include "athanor/checkpoint/format/staged_folder.h"
#include "athanor/checkpoint/slices.h"

namespace athanor::checkpoint {
namespace {

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
  check_head(content.step, content.state, content.files);
  for (const NamedTensor& tensor : content.tensors) {
    check(tensor.read || (tensor.tensor.defined() && tensor.tensor.dtype() == Dtype::f32 &&
                          tensor.tensor.queue().device() != Device::null),
          "checkpoint: tensor '{}': expected f32 values in memory", tensor.name);
  }
}

// Refuses ranks that disagree on the state: the checkpoint would be of no single step.
uint64_t state_identity(const CheckpointContent& content) {
  return hash64(fmt::format("{}\n{}", content.step, content.state));
}

// The values of a tensor, in pieces.
void give_values(const NamedTensor& tensor, const ShardSink& sink) {
  const bool is_read =
      tensor.read || tensor.tensor.queue().device() != Device::cpu;  // else it is in host memory
  std::vector<float> buffer(is_read ? kShardPieceBytes / sizeof(float) : 0);
  const uint64_t size_bytes = static_cast<uint64_t>(tensor.shape().numel()) * sizeof(float);
  for (uint64_t done = 0; done < size_bytes; done += kShardPieceBytes) {
    const size_t piece = std::min<uint64_t>(kShardPieceBytes, size_bytes - done);
    const auto first = static_cast<int64_t>(done / sizeof(float));
    const auto count = static_cast<int64_t>(piece / sizeof(float));
    const void* bytes = buffer.data();
    if (tensor.read)
      tensor.read(first, count, buffer.data());
    else if (is_read)
      copy_to_host(buffer.data(), tensor.tensor.flat(first, count), piece);
    else
      bytes = static_cast<const char*>(tensor.tensor.raw()) + done;
    sink(bytes, piece);
  }
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
  ShardTable table(plan.slices.size(), group.size());
  agree(group, [&] {
    check(first[1] == identity, "checkpoint: this rank's step or state is not that of rank 0");
    write_shard(
        env, folder, group.rank(), content.step, plan,
        [&](const SlicePlan::Slice& slice, const ShardSink& sink) {
          give_values(content.tensors[slice.local], sink);
        },
        table);
  });
  group.all_reduce(table.words().data(), static_cast<int64_t>(table.words().size()), Dtype::i64, kWriteCall)
      .wait();
  agree(group, [&] {
    if (!staged) return;
    write_rest(env, folder, {.step = content.step, .state = content.state, .files = content.files}, plan,
               table);
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
