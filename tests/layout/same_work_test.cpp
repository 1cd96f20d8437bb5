#include "athanor/layout/same_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace athanor::tests::same_work_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::vector<int64_t> works(const Layout& layout, int64_t global_batch_size = 32,
                           int64_t micro_batch_size = 4) {
  TrainConfig train;
  train.global_batch_size = global_batch_size;
  train.micro_batch_size = micro_batch_size;
  std::vector<int64_t> all;
  for (int rank = 0; rank < layout.world_size(); ++rank)
    all.push_back(layout::same_work(layout, train, rank));
  return all;
}

TEST(SameWork, RanksOfDpAndTpHaveIt) {
  EXPECT_THAT(works({.replicate = 2, .shard = 2, .tp = 2, .micro_batches = 8}), Each(0));
}

TEST(SameWork, StagesAndPartsOfASequenceDiffer) {
  EXPECT_THAT(works({.pp = 2, .replicate = 2, .tp = 2, .micro_batches = 8}),
              ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(works({.replicate = 2, .cp = 2, .tp = 2, .micro_batches = 8}),
              ElementsAre(0, 0, 1, 1, 0, 0, 1, 1));
  EXPECT_THAT(works({.pp = 2, .replicate = 2, .cp = 2, .micro_batches = 8}),
              ElementsAre(0, 1, 0, 1, 2, 3, 2, 3));
}

TEST(SameWork, IsNotKnownWhereMicroBatchesAreNotEven) {
  EXPECT_THAT(works({.replicate = 2, .micro_batches = 3}, 12, 4), Each(-1)) << "two and one";
  EXPECT_THAT(works({.replicate = 2, .micro_batches = 2}, 5, 4), Each(-1)) << "four sequences and one";
  EXPECT_THAT(works({.replicate = 2, .micro_batches = 8, .shares = layout::Shares::by_speed}), Each(-1));
}

TEST(SameWork, IsNotKnownOfExpertsOnOtherRanksNorOfServers) {
  EXPECT_THAT(works({.replicate = 2, .ep = 2, .micro_batches = 8}), Each(-1));
  EXPECT_THAT(works({.replicate = 2, .servers = 1, .micro_batches = 8}), Each(-1));
}

}  // namespace
}  // namespace athanor::tests::same_work_test
