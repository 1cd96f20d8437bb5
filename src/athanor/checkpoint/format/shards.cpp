#include "athanor/checkpoint/format/shards.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/store/safetensors.h"

namespace athanor::checkpoint::format {
namespace {

ShardTable::Hash parse_hash(const std::string& hex) {
  ShardTable::Hash hash;
  std::from_chars(hex.data(), hex.data() + 16, hash.high, 16);
  std::from_chars(hex.data() + 16, hex.data() + 32, hash.low, 16);
  return hash;
}

Manifest make_manifest(const CheckpointHead& head, const SlicePlan& plan, const ShardTable& table) {
  Manifest manifest;
  manifest.step = head.step;
  manifest.state = head.state;
  manifest.tensors = plan.tensors;
  for (size_t i = 0; i < plan.slices.size(); ++i)
    manifest.tensors[plan.slices[i].tensor].slices[plan.slices[i].slice].hash = table.slice(i).hex();
  for (int rank = 0; rank < table.num_ranks(); ++rank)
    if (table.shard_bytes(rank) > 0)
      manifest.files.push_back(
          {shard_name(rank), table.shard_bytes(rank), table.shard_header(rank).hex(), true});
  for (const TextFile& file : head.files) {
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

std::string ShardTable::Hash::hex() const {
  return fmt::format("{:016x}{:016x}", high, low);
}

void ShardTable::set_shard(int rank, const Hash& header, uint64_t size_bytes) {
  set(shard(rank), header);
  words_[shard(rank) + 2] = size_bytes;
}

void check_head(int64_t step, const std::string& state, const std::vector<TextFile>& files) {
  check(step >= 0, "checkpoint: got step {}, expected one from zero up", step);
  canonical_state(state, "checkpoint");
  std::set<std::string> names;
  for (const TextFile& file : files) {
    check(is_plain_file_name(file.name) && file.name.rfind("tensors-", 0) != 0,
          "checkpoint: got the file name '{}', expected a plain one", file.name);
    check(names.insert(file.name).second, "checkpoint: file '{}' is given twice", file.name);
  }
}

void write_shard(Env& env, const std::string& folder, int rank, int64_t step, const SlicePlan& plan,
                 const ShardSource& source, ShardTable& table) {
  std::map<std::string_view, size_t> mine;  // the rank's slices of the plan, by entry name
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
                           {{"format", "pt"}, {"athanor.step", std::to_string(step)}});
  for (const StoredTensor& stored : writer.tensors()) {
    const size_t index = mine.at(stored.name);
    Hash128 hash;
    source(plan.slices[index], [&](const void* bytes, size_t size_bytes) {
      hash.update(bytes, size_bytes);
      writer.append(bytes, size_bytes);
    });
    table.set_slice(index, parse_hash(hash.hex()));
  }
  writer.finish();
  table.set_shard(rank, parse_hash(writer.header_hash()), writer.size_bytes());
}

void write_rest(Env& env, const std::string& folder, const CheckpointHead& head, const SlicePlan& plan,
                const ShardTable& table) {
  for (const TextFile& file : head.files) write_file(env, join_path(folder, file.name), file.text);
  write_file(env, join_path(folder, kManifestName), print_manifest(make_manifest(head, plan, table)));
}

}  // namespace athanor::checkpoint::format
