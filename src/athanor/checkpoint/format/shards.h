// The files of a checkpoint: each rank's shard of the tensors, and what stands beside them.
//
//   ShardTable table(plan.slices.size(), num_ranks);
//   write_shard(env, folder, rank, step, plan, [&](const SlicePlan::Slice& slice, const ShardSink& sink) {
//     sink(values_of(slice), slice.size_bytes);                            // in pieces of any size
//   }, table);
//   write_rest(env, folder, {.step = step, .state = state, .files = files}, plan, table);   // the manifest last
//
// Checksums are of the bytes as they go to the file. Errors: IoError of the Env. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/checkpoint/format/slice_plan.h"

namespace athanor::checkpoint::format {

struct TextFile {
  std::string name, text;
};

struct CheckpointHead {
  int64_t step = 0;
  std::string state = {};  // TrainState, one JSON object as text
  std::vector<TextFile> files = {};
};
// Error where step, state or the names of the files cannot be those of a checkpoint.
void check_head(int64_t step, const std::string& state, const std::vector<TextFile>& files);

// What writing found, checksums and sizes, as numbers. Of a part that nobody has set they are 0: tables of ranks that each
// set their own parts add up to the whole one.
class ShardTable {
 public:
  struct Hash {
    uint64_t high = 0, low = 0;
    std::string hex() const;
  };
  ShardTable(size_t num_slices, int num_ranks)
      : num_slices_(num_slices),
        num_ranks_(num_ranks),
        words_(2 * num_slices + 3 * static_cast<size_t>(num_ranks), 0) {}

  void set_slice(size_t index, const Hash& hash) { set(2 * index, hash); }
  void set_shard(int rank, const Hash& header, uint64_t size_bytes);
  Hash slice(size_t index) const { return {words_[2 * index], words_[2 * index + 1]}; }
  Hash shard_header(int rank) const { return {words_[shard(rank)], words_[shard(rank) + 1]}; }
  uint64_t shard_bytes(int rank) const { return words_[shard(rank) + 2]; }  // zero: the rank wrote none
  int num_ranks() const { return num_ranks_; }
  std::span<uint64_t> words() { return words_; }

 private:
  size_t shard(int rank) const { return 2 * num_slices_ + 3 * static_cast<size_t>(rank); }
  void set(size_t at, const Hash& hash) {
    words_[at] = hash.high;
    words_[at + 1] = hash.low;
  }
  size_t num_slices_;
  int num_ranks_;
  std::vector<uint64_t> words_;
};

constexpr size_t kShardPieceBytes = size_t{1} << 20;  // hashed, then written while it is still in the cache

using ShardSink = std::function<void(const void* bytes, size_t size_bytes)>;
// Gives the f32 values of a slice, in pieces.
using ShardSource = std::function<void(const SlicePlan::Slice& slice, const ShardSink& sink)>;

// The slices of the plan that `rank` writes; no file where there are none.
void write_shard(Env& env, const std::string& folder, int rank, int64_t step, const SlicePlan& plan,
                 const ShardSource& source, ShardTable& table);
void write_rest(Env& env, const std::string& folder, const CheckpointHead& head, const SlicePlan& plan,
                const ShardTable& table);

}  // namespace athanor::checkpoint::format
