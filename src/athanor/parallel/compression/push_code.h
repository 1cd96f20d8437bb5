// What a worker of parameter servers sends of its gradients as fewer bytes: a server's row of a bucket as a message. Both
// ends have the same plan (docs/compression.md has the formulas):
//
//   const PushCode code(buckets, options);             // of buckets cut into a row for each server
//   code.bytes(bucket, server, {})                     // of a message of blocks (bf16, int8)
//   code.bytes(bucket, server, counts)                 // top-k: with so many elements of each piece in code.coded()
//   code.decode(bucket, server, message, counts, row);
//
// A message has the coded pieces of the row, one after the other, then the others as f32. Of blocks a piece is its codes,
// 256 elements each; of top-k the indices in the weight (i32, ascending), then the values. Elements that are not sent
// decode to 0, gaps between weights too, and none to -0, so that messages add up to the same bits as sums of codes over
// ranks (block_sum.h with `needed`, topk_sum.h). Thread rule: a plain value.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "athanor/parallel/buckets.h"
#include "athanor/parallel/compression/block_code.h"
#include "athanor/parallel/compression/compression.h"

namespace athanor {

class PushCode {
 public:
  struct Piece {
    size_t slot;      // of the bucket
    FlatRange range;  // elements of the weight, never none
    int64_t at;       // where the range begins in the row
  };

  // Error: a compression that is not of single messages.
  PushCode(const Buckets& buckets, const CompressionOptions& options);
  const BlockCode* blocks() const { return blocks_; }  // null: top-k
  int64_t largest(const Param& param) const;           // of it, that top-k sends
  const std::vector<Piece>& coded(size_t bucket, int server) const { return row(bucket, server).coded; }
  const std::vector<Piece>& exact(size_t bucket, int server) const { return row(bucket, server).exact; }
  int64_t bytes(size_t bucket, int server, std::span<const int32_t> counts) const;
  int64_t most_bytes(size_t bucket, int server) const;
  void decode(size_t bucket, int server, const std::byte* message, std::span<const int32_t> counts,
              const Tensor& row) const;

 private:
  struct Row {
    std::vector<Piece> coded, exact;
  };
  const Row& row(size_t bucket, int server) const { return rows_[bucket][static_cast<size_t>(server)]; }

  const Buckets* buckets_;
  const BlockCode* blocks_ = nullptr;
  double ratio_ = 0.0;
  std::vector<std::vector<Row>> rows_;  // by bucket and server
};

inline int64_t code_blocks(int64_t count) {
  return (count + kCodeBlock - 1) / kCodeBlock;
}

}  // namespace athanor
