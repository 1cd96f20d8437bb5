// A rank that computes learns between two operations that another one is lost, not at its next collective.
#include <gtest/gtest.h>

#include <latch>

#include "train/layout_run.h"

namespace athanor::tests::lost_peers_test {
namespace {

// Rank 1 is lost while rank 0 reads its first micro-batch of three.
TEST(LostPeers, APassEndsBeforeItsNextMicroBatch) {
  Config config = tiny("llama");
  std::latch lost(1);
  int reads = 0;
  run_ranks(make_thread_worlds(2), [&](World& world) {
    Engine engine;
    TrainingRank rank(config, world, engine.arena, /*num_channels=*/2);
    rank.training.allocate();
    rank.training.model->initialize(config.train.seed);
    TrainState state = first_state(config);
    rank.groups.data->barrier("ready");
    if (world.rank() == 1) {
      world.abort("it was killed");
      lost.count_down();
      return;
    }
    const std::vector<int64_t> micro_batches = rank.training.own_micro_batches();
    ASSERT_EQ(micro_batches.size(), 3u);
    Batch batch;
    EXPECT_THROW(rank.training.role->step(state,
                                          [&]() -> const Batch& {
                                            lost.wait();
                                            batch = make_batch(config, 1, micro_batches.at(reads++));
                                            return batch;
                                          }),
                 Recoverable);
  });
  EXPECT_EQ(reads, 1);
}

}  // namespace
}  // namespace athanor::tests::lost_peers_test
