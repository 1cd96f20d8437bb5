// Micro-batches given out by speed: whoever computes a micro-batch, the tree gives the bits of one process.
#include <gtest/gtest.h>

#include <mutex>

#include "athanor/parallel/data/load_balance.h"
#include "train/small_training.h"

namespace athanor::tests::balance_test {
namespace {

// Ranks that take turns at being slow, by a script: new shares after every step.
Outcome run_balanced(const Config& config, int ranks, std::vector<std::vector<int64_t>>& partitioned) {
  const auto groups = make_thread_groups(ranks);
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  std::vector<std::vector<int>> computed;  // [step][micro-batch]: by how many ranks
  computed.assign(static_cast<size_t>(config.train.steps), std::vector<int>(9, 0));
  std::mutex mutex;
  run_ranks(groups, [&](Group& group) {
    Engine engine;
    Training training(config, 2, group, engine.arena, nullptr, nullptr);
    training.allocate();
    training.model->initialize(config.train.seed);
    training.parallel->publish();
    TrainState state = first_state(config);
    LoadBalance balance(group, training.num_micro_batches, {.every = 1});
    Outcome& outcome = outcomes[static_cast<size_t>(group.rank())];
    Batch batch;
    for (int64_t step = 1; step <= config.train.steps; ++step) {
      const std::vector<int64_t> micro_batches =
          training.parallel->micro_batches_of_step(training.num_micro_batches);
      auto micro_batch = micro_batches.begin();
      outcome.steps.push_back(training.runner->run(state, [&]() -> const Batch& {
        const std::scoped_lock lock(mutex);
        ++computed[static_cast<size_t>(step - 1)].at(static_cast<size_t>(*micro_batch));
        batch = make_batch(config, step, *micro_batch++);
        return batch;
      }));
      const double slow = step % ranks == group.rank() ? 3.0 : 1.0;
      balance.add(slow * static_cast<double>(micro_batches.size()));
      if (balance.deal()) training.parallel->share_micro_batches(balance.counts());
      const std::scoped_lock lock(mutex);
      if (group.rank() == 0) partitioned.push_back(balance.counts());
    }
    for (const auto& param : training.model->params()) {
      std::vector<float> values(static_cast<size_t>(param->numel()));
      training.parallel->load(*param, values.data());
      outcome.weights.insert(outcome.weights.end(), values.begin(), values.end());
    }
  });
  for (const auto& step : computed)
    for (const int times : step)
      EXPECT_EQ(times, 1) << "a micro-batch of a step was computed by so many ranks";
  return outcomes[0];
}

TEST(Balance, TheBitsDoNotChangeWhoeverComputesAMicroBatch) {
  for (const char* optimizer : {"adamw", "sgd"})
    for (const int stage : {0, 1})
      for (const int ranks : {2, 3}) {
        Config config = tiny("gpt2");
        config.optimizer.name = optimizer;
        config.model.dropout = 0.1;
        config.parallel.reduce = "tree";
        config.parallel.zero_stage = stage;
        config.train.global_batch_size = 18;  // nine micro-batches
        config.train.steps = 5;
        std::vector<std::vector<int64_t>> partitioned;
        const Outcome balanced = run_balanced(config, ranks, partitioned);
        EXPECT_TRUE(same_bits(balanced, run(config, 1))) << optimizer << " zero " << stage << " on " << ranks;
        for (size_t i = 1; i < partitioned.size(); ++i)
          EXPECT_NE(partitioned[i], partitioned[i - 1]) << "nothing was partitioned anew";
      }
}

TEST(Balance, ShardedGradientsAndWrongSharesAreRefused) {
  Config config = tiny("llama");
  config.parallel.zero_stage = 2;
  std::vector<std::vector<int64_t>> partitioned;
  config.train.global_batch_size = 18;
  EXPECT_THROW(run_balanced(config, 2, partitioned), Error);
  const auto groups = make_thread_groups(2);
  config.parallel.zero_stage = 0;
  run_ranks(groups, [&](Group& group) {
    Engine engine;
    Training training(config, 2, group, engine.arena, nullptr, nullptr);
    training.allocate();
    training.parallel->share_micro_batches({4, 4});
    EXPECT_THROW(training.parallel->micro_batches_of_step(training.num_micro_batches), Error);
    training.parallel->share_micro_batches({2, 3, 4});
    EXPECT_THROW(training.parallel->micro_batches_of_step(training.num_micro_batches), Error);
  });
}

}  // namespace
}  // namespace athanor::tests::balance_test
