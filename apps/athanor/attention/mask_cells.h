// A mask seen from afar: a grid of cells, and how much of each is seen.
//
//   const MaskCells cells(mask, /*rule=*/0, /*most=*/64);
//   for (int64_t row = 0; row < cells.size(); ++row) print(cells.share(row, row));
//
// Cell (r, c) of m x m holds the queries n r / m ... n (r + 1) / m - 1 and the keys of the same numbers. Thread rule: a value.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/masks/attention_mask.h"

namespace athanor::apps {

class MaskCells {
 public:
  // At most `most` cells a side; of a whole sequence, so that there are as many queries as keys.
  MaskCells(const AttentionMask& mask, int64_t rule, int64_t most);

  int64_t size() const { return size_; }
  int64_t positions() const { return positions_; }
  Seen seen(int64_t row, int64_t column) const;
  double share(int64_t row, int64_t column) const;  // of the cell's pairs

 private:
  int64_t first_of(int64_t cell) const { return positions_ * cell / size_; }
  int64_t cell_of(int64_t position) const { return ((position + 1) * size_ - 1) / positions_; }
  int64_t pairs_of(int64_t row, int64_t column) const;
  void add(int64_t query, int64_t first_key, int64_t keys, uint64_t bits);

  int64_t positions_, size_;
  std::vector<int64_t> seen_;  // pairs [size, size]
};

}  // namespace athanor::apps
