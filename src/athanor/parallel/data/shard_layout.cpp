#include "athanor/parallel/data/shard_layout.h"

#include <algorithm>
#include <numeric>

#include "athanor/base/check.h"
#include "athanor/kernels/elementwise.h"

namespace athanor::parallel::data {
namespace {

// Tensors start at multiples of a cache line: of f32, or with several rows of the smallest dtype that is all-gathered.
constexpr int64_t kSlot = 16, kRowSlot = 32;

int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Sets the offsets for rows of `count` elements; returns the end of the last tensor.
int64_t place(const std::vector<int64_t>& numels, int64_t count, std::vector<int64_t>& offsets) {
  offsets.clear();
  int64_t end = 0;
  for (const int64_t numel : numels) {
    if (end % count + numel > count) end = round_up(end, kNormBlock);
    offsets.push_back(end);
    end = round_up(end + numel, kRowSlot);
  }
  return end;
}

}  // namespace

FlatRange ShardLayout::piece(size_t tensor, int row) const {
  const int64_t start = offsets.at(tensor), numel = numels.at(tensor);
  const auto inside = [&](int64_t element) { return std::clamp<int64_t>(element - start, 0, numel); };
  return {inside(row * count), inside((row + 1) * count)};
}

int64_t ShardLayout::start_in_row(size_t tensor, int row) const {
  return std::clamp<int64_t>(offsets.at(tensor) - row * count, 0, count);
}

ShardLayout lay_out(std::vector<int64_t> numels, int rows) {
  check(rows >= 1, "shard layout: got {} rows, expected at least 1", rows);
  ShardLayout layout{.rows = rows, .count = 0, .numels = std::move(numels), .offsets = {}};
  if (rows == 1) {
    for (const int64_t numel : layout.numels) {
      layout.offsets.push_back(layout.count);
      layout.count += round_up(numel, kSlot);
    }
    return layout;
  }
  const int64_t elements = std::accumulate(layout.numels.begin(), layout.numels.end(), int64_t{0});
  layout.count = std::max(kNormBlock, round_up((elements + rows - 1) / rows, kNormBlock));
  while (place(layout.numels, layout.count, layout.offsets) > layout.total()) layout.count += kNormBlock;
  return layout;
}

}  // namespace athanor::parallel::data
