#include "apps/athanor/attention/mask_cells.h"

#include <algorithm>
#include <bit>

namespace athanor::apps {
namespace {

constexpr int64_t kSide = AttentionMask::kBlock;

}  // namespace

MaskCells::MaskCells(const AttentionMask& mask, int64_t rule, int64_t most)
    : positions_(mask.queries()),
      size_(std::min(most, mask.queries())),
      seen_(static_cast<size_t>(size_ * size_)) {
  for (int64_t block = 0; block < mask.query_blocks(); ++block)
    for (const AttentionMask::Block& key : mask.keys_of(rule, block)) {
      const int64_t first_key = key.block * kSide, keys = std::min(kSide, positions_ - first_key);
      const int64_t end = std::min((block + 1) * kSide, positions_);
      for (int64_t query = block * kSide; query < end; ++query)
        add(query, first_key, keys,
            key.bits == AttentionMask::kFull ? ~uint64_t{0}
                                             : mask.bits(key.bits).rows[query - block * kSide]);
    }
}

// Bits beyond the keys of the block are not looked at.
void MaskCells::add(int64_t query, int64_t first_key, int64_t keys, uint64_t bits) {
  int64_t* row = seen_.data() + cell_of(query) * size_;
  for (int64_t cell = cell_of(first_key), from = first_key; from < first_key + keys; ++cell) {
    const int64_t end = std::min(first_of(cell + 1), first_key + keys);
    const uint64_t of_cell = bits >> (from - first_key) & (~uint64_t{0} >> (kSide - (end - from)));
    row[cell] += std::popcount(of_cell);
    from = end;
  }
}

int64_t MaskCells::pairs_of(int64_t row, int64_t column) const {
  return (first_of(row + 1) - first_of(row)) * (first_of(column + 1) - first_of(column));
}

Seen MaskCells::seen(int64_t row, int64_t column) const {
  const int64_t seen = seen_[static_cast<size_t>(row * size_ + column)];
  if (seen == 0) return Seen::none;
  return seen == pairs_of(row, column) ? Seen::all : Seen::some;
}

double MaskCells::share(int64_t row, int64_t column) const {
  return static_cast<double>(seen_[static_cast<size_t>(row * size_ + column)]) /
         static_cast<double>(pairs_of(row, column));
}

}  // namespace athanor::apps
