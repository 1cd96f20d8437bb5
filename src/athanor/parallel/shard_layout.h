// How several tensors share one flat buffer that is cut into equal rows, one for each rank (ZeRO).
//
//   const ShardLayout layout = lay_out({65536, 256, 256}, /*rows=*/4);
//   layout.offsets[1]           // where tensor 1 starts; its elements follow one another
//   layout.piece(0, /*row=*/3)  // the elements of tensor 0 that rank 3 keeps, as a range of its own elements
//
// With one row a tensor takes its elements, rounded up to a cache line of floats. With several, rows are whole norm
// blocks (kernels/elementwise.h) and a tensor that crosses from row to row starts at one, so each rank keeps whole
// blocks of each tensor and norms have the same bits for any number of rows (law 5). A tensor of one block or less
// lies in one row. Padding: less than 32 elements behind each tensor, less than a block before one that crosses,
// and what is left of the last row; a row is less than a block longer than it would be without, and 32 elements for
// each tensor. Tensors whose size is a multiple of the block should come first. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/autograd/param.h"

namespace athanor {

struct ShardLayout {
  int rows = 1;
  int64_t count = 0;                     // elements of a row
  std::vector<int64_t> numels, offsets;  // of each tensor
  int64_t total() const { return rows * count; }
  FlatRange piece(size_t tensor, int row) const;
  int64_t start_in_row(size_t tensor, int row) const;  // of that piece
};

ShardLayout lay_out(std::vector<int64_t> numels, int rows);

}  // namespace athanor
