// Norms of tensors in pieces: the bits of the whole, whoever has which blocks.
#include "athanor/parallel/data/gradient_norm.h"

#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/comm/shm/thread.h"
#include "athanor/parallel/data/shard_layout.h"
#include "support/engine.h"

namespace athanor::tests::gradient_norm_test {
namespace {

const std::vector<int64_t> kNumels = {256 * 7, 256 * 3, 2000, 300, 256, 1};

std::vector<double> whole_sums() {
  Engine engine;
  std::vector<double> sums(kNumels.size());
  for (size_t t = 0; t < kNumels.size(); ++t) {
    const Tensor x = engine.random({kNumels[t]}, "x" + std::to_string(t));
    kernels_of(x).elementwise.sum_squares(x.queue(), {&x, 1}, {&sums[t], 1});
  }
  return sums;
}

TEST(GradientNorm, PiecesHaveTheBitsOfTheWhole) {
  const std::vector<double> expected = whole_sums();
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const ShardLayout layout = lay_out(kNumels, ranks);
    const auto groups = make_thread_groups(ranks);
    run_ranks(groups, [&](Group& group) {
      Engine engine;
      std::vector<NormTensor> tensors;
      for (size_t t = 0; t < kNumels.size(); ++t) {
        NormTensor tensor{.numel = kNumels[t], .pieces = {}, .mine = {}};
        for (int rank = 0; rank < ranks; ++rank) tensor.pieces.push_back(layout.piece(t, rank));
        const FlatRange mine = layout.piece(t, group.rank());
        tensor.mine =
            [x = engine.random({kNumels[t]}, "x" + std::to_string(t)).flat(mine.first, mine.count())] {
              return x;
            };
        tensors.push_back(tensor);
      }
      // What is whole on every rank is among them.
      tensors.push_back(
          {.numel = kNumels[2], .pieces = {}, .mine = [&] { return engine.random({kNumels[2]}, "x2"); }});
      auto sums = sum_squares(tensors, group);
      EXPECT_EQ(sums.back(), expected[2]);
      sums.pop_back();
      EXPECT_EQ(sums, expected) << ranks << " ranks";
    });
  }
}

TEST(GradientNorm, PiecesMustBeWholeBlocks) {
  const auto groups = make_thread_groups(2);
  EXPECT_THROW(run_ranks(groups,
                         [](Group& group) {
                           Engine engine;
                           const FlatRange first{0, 100}, last{100, 600};
                           const FlatRange& mine = group.rank() == 0 ? first : last;
                           sum_squares({{.numel = 600,
                                         .pieces = {first, last},
                                         .mine = [&] { return engine.random({mine.count()}, "x"); }}},
                                       group);
                         }),
               Error);
}

TEST(GradientNorm, OfNothing) {
  EXPECT_TRUE(sum_squares({}, *make_single_group()).empty());
}

}  // namespace
}  // namespace athanor::tests::gradient_norm_test
