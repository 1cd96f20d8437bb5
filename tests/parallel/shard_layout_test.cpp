// How tensors share a flat buffer cut into rows: every element once, whole norm blocks, no more padding than is said.
#include "athanor/parallel/data/shard_layout.h"

#include <gtest/gtest.h>

#include <random>

#include "athanor/base/error.h"
#include "athanor/kernels/elementwise.h"

namespace athanor::tests::shard_layout_test {
namespace {

void expect_sound(const ShardLayout& layout) {
  std::vector<bool> taken(static_cast<size_t>(layout.total()));
  for (size_t tensor = 0; tensor < layout.numels.size(); ++tensor) {
    int64_t next = 0;  // pieces follow one another in the order of the rows
    for (int row = 0; row < layout.rows; ++row) {
      const FlatRange piece = layout.piece(tensor, row);
      if (piece.count() == 0) continue;
      EXPECT_EQ(piece.first, next);
      next = piece.last;
      if (layout.rows > 1) {
        EXPECT_EQ(piece.first % kNormBlock, 0);
        EXPECT_TRUE(piece.last % kNormBlock == 0 || piece.last == layout.numels[tensor]);
      }
      const int64_t start = layout.start_in_row(tensor, row);
      EXPECT_EQ(row * layout.count + start, layout.offsets[tensor] + piece.first);
      EXPECT_LE(start + piece.count(), layout.count);
      for (int64_t i = 0; i < piece.count(); ++i) {
        const auto at = static_cast<size_t>(row * layout.count + start + i);
        EXPECT_FALSE(taken[at]) << "element " << at << " belongs to two tensors";
        taken[at] = true;
      }
    }
    EXPECT_EQ(next, layout.numels[tensor]) << "elements of tensor " << tensor << " are in no row";
    EXPECT_EQ(layout.offsets[tensor] % (layout.rows == 1 ? 16 : 32), 0);
  }
}

TEST(ShardLayout, RandomTensorsInAnyNumberOfRows) {
  std::mt19937 dice(11);
  const auto roll = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(dice); };
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<int64_t> numels;
    int64_t elements = 0;
    for (int i = roll(1, 8); i > 0; --i) numels.push_back(roll(0, 3) == 0 ? roll(1, 300) : 256 * roll(1, 9));
    std::stable_partition(numels.begin(), numels.end(), [](int64_t n) { return n % kNormBlock == 0; });
    for (const int64_t numel : numels) elements += numel;
    const int rows = roll(1, 9);
    const ShardLayout layout = lay_out(numels, rows);
    expect_sound(layout);
    if (rows > 1) {
      EXPECT_EQ(layout.count % kNormBlock, 0);
      EXPECT_LT(layout.count,
                (elements + rows - 1) / rows + 2 * kNormBlock + 32 * static_cast<int64_t>(numels.size()));
    }
    if (::testing::Test::HasFailure()) FAIL() << "trial " << trial;
  }
}

TEST(ShardLayout, OfOneRowIsPackedByCacheLines) {
  const ShardLayout layout = lay_out({1, 16, 17, 3}, 1);
  EXPECT_EQ(layout.offsets, (std::vector<int64_t>{0, 16, 32, 64}));
  EXPECT_EQ(layout.count, 80);
}

TEST(ShardLayout, EmptyAndWrong) {
  EXPECT_EQ(lay_out({}, 3).count, kNormBlock);  // a row is never empty, so every rank has something to gather
  EXPECT_THROW(lay_out({1}, 0), Error);
}

}  // namespace
}  // namespace athanor::tests::shard_layout_test
