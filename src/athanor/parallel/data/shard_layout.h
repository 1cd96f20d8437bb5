// How several tensors share one flat buffer that is partitioned into rows of equal length, one row per rank (ZeRO).
//
//   const ShardLayout layout = lay_out({65536, 256, 256}, /*rows=*/4);
//   layout.offsets[1]           // where tensor 1 starts; its elements are contiguous
//   layout.piece(0, /*row=*/3)  // rank 3's shard of tensor 0, as a range of the tensor's elements
//
// One row: each tensor is rounded up to a cache line of floats.
// Several rows: a row is a multiple of the norm block (kernels/elementwise.h), and a tensor that spans rows starts at a
// block. So each rank has whole blocks of each tensor, and norms have the same bits for any number of rows (law 5). A
// tensor of one block or less lies in one row.
// Padding: less than 32 elements after each tensor, less than a block before one that spans rows, and the end of the
// last row. A row is longer than without padding by less than a block, and 32 elements per tensor. Tensors whose size
// is a multiple of the block should come first. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/autograd/shard.h"

namespace athanor::parallel::data {

struct ShardLayout {
  int rows = 1;
  int64_t count = 0;                     // elements of a row
  std::vector<int64_t> numels, offsets;  // of each tensor
  int64_t total() const { return rows * count; }
  FlatRange piece(size_t tensor, int row) const;
  int64_t start_in_row(size_t tensor, int row) const;  // where that piece starts in its row
};

ShardLayout lay_out(std::vector<int64_t> numels, int rows);

}  // namespace athanor::parallel::data
