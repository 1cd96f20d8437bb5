// Law 1 and law 5 for data parallelism: any number of ranks computes what one process computes.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "train/small_training.h"

namespace athanor::tests::parallel_test {
namespace {

struct ParallelCase {
  const char* family;
  const char* compute;
  double dropout;
  const char* optimizer;
};

void PrintTo(const ParallelCase& c, std::ostream* out) {
  *out << c.family << " " << c.compute << " " << c.optimizer << (c.dropout > 0 ? " dropout" : "");
}

class ParallelTest : public ::testing::TestWithParam<ParallelCase> {};

TEST_P(ParallelTest, TreeReductionGivesTheSameBitsForAnyNumberOfRanks) {
  Config config = tiny(GetParam().family);
  config.precision.compute = GetParam().compute;
  config.model.dropout = GetParam().dropout;
  config.optimizer.name = GetParam().optimizer;
  config.parallel.reduce = "tree";
  const Outcome one = run(config, 1);
  for (const int ranks : {2, 3, 4, 5}) EXPECT_TRUE(same_bits(one, run(config, ranks))) << ranks << " ranks";
  EXPECT_TRUE(same_bits(one, run(config, 2, 2))) << "threads";
  config.parallel.recompute = "full";
  EXPECT_TRUE(same_bits(one, run(config, 2))) << "recompute";
  config.train.seed = 2;
  EXPECT_FALSE(same_bits(one, run(config, 1))) << "another seed";
}

TEST_P(ParallelTest, FastReductionAgreesWithOneProcess) {
  Config config = tiny(GetParam().family);
  config.precision.compute = GetParam().compute;
  config.model.dropout = GetParam().dropout;
  config.optimizer.name = GetParam().optimizer;
  const double tolerance = std::string(GetParam().compute) == "f32" ? 1e-5 : 5e-2;
  const Outcome one = run(config, 1);
  for (const int ranks : {2, 4}) {
    const Outcome many = run(config, ranks);
    EXPECT_TRUE(same_bits(many, run(config, ranks))) << "two runs of one layout";
    for (size_t i = 0; i < one.steps.size(); ++i) {
      EXPECT_NEAR(many.steps[i].loss, one.steps[i].loss, tolerance * one.steps[i].loss);
      EXPECT_NEAR(many.steps[i].grad_norm, one.steps[i].grad_norm, tolerance * one.steps[i].grad_norm);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ParallelTest,
    ::testing::Values(ParallelCase{"llama", "f32", 0.0, "adamw"}, ParallelCase{"llama", "bf16", 0.1, "adamw"},
                      ParallelCase{"gpt2", "f32", 0.1, "sgd"}, ParallelCase{"gpt2", "bf16", 0.0, "adamw"},
                      ParallelCase{"gpt2", "f16", 0.1, "adamw"}, ParallelCase{"moe", "f32", 0.1, "sgd"},
                      ParallelCase{"moe", "bf16", 0.0, "adamw"},
                      ParallelCase{"moe_bias", "f32", 0.0, "adamw"},
                      ParallelCase{"moe_bias", "f16", 0.1, "sgd"}));

TEST(Parallel, MoreRanksThanMicroBatchesAreRefused) {
  EXPECT_THROW(run(tiny("llama"), 6), Error);
}

TEST(Parallel, TheLastMicroBatchMayBeSmaller) {
  Config config = tiny("llama");
  config.train.micro_batch_size = 4;  // micro-batches of 4, 4 and 2
  config.parallel.reduce = "tree";
  EXPECT_TRUE(same_bits(run(config, 1), run(config, 3)));
}

// Micro-batches are read one at a time: the activations of the one before are freed by then, but for its token ids
// (2 x 12, rounded up), whose rows of the table have a gradient.
TEST(Parallel, AStepWhoseDataFailInTheMiddleIsRunAgain) {
  for (const std::string reduce : {"fast", "tree"}) {
    Config config = tiny("llama");
    config.parallel.reduce = reduce;
    const Outcome undisturbed = run(config, 1);
    constexpr uint64_t kIdsBytes = 128;
    const auto world = make_single_world();
    Engine engine;
    TrainingRank rank(config, *world, engine.arena);
    Training& training = rank.training;
    training.allocate();
    training.model->initialize(config.train.seed);
    TrainState state = first_state(config);
    Outcome again;
    bool fails = false;
    Batch batch;
    while (state.step < config.train.steps) {
      int64_t micro_batch = 0;
      const int64_t step = state.step + 1;
      fails = step == 3 && !fails;
      const auto run_step = [&] {
        return training.role->step(state, [&]() -> const Batch& {
          EXPECT_LE(engine.arena.usage().current[static_cast<size_t>(Category::activations)], kIdsBytes)
              << "micro-batch " << micro_batch;
          if (fails && micro_batch == 2) throw IoError("data: the disk is gone", 5);
          batch = make_batch(config, step, micro_batch++);
          return batch;
        });
      };
      if (fails) {
        EXPECT_THROW(run_step(), IoError);
      } else {
        again.steps.push_back(run_step());
      }
    }
    for (const auto& param : training.model->params()) {
      const std::vector<float> values = to_floats(param->master());
      again.weights.insert(again.weights.end(), values.begin(), values.end());
    }
    ASSERT_EQ(again.steps.size(), undisturbed.steps.size());
    EXPECT_TRUE(same_bits(again, undisturbed)) << reduce;
  }
}

TEST(LossScale, OverflowSkipsTheStepAndBacksOff) {
  Config config = tiny("llama");
  config.precision.compute = "f16";
  config.precision.loss_scale = 16777216.0;  // certain to overflow f16
  config.train.steps = 40;
  config.precision.loss_scale_window = 2;
  const Outcome outcome = run(config, 2);
  EXPECT_FALSE(outcome.steps[0].applied);
  EXPECT_EQ(outcome.steps[1].loss_scale, 8388608.0);
  int applied = 0, grown = 0;
  for (size_t i = 0; i < outcome.steps.size(); ++i) {
    applied += outcome.steps[i].applied;
    grown += i > 0 && outcome.steps[i].loss_scale > outcome.steps[i - 1].loss_scale;
  }
  EXPECT_GT(applied, 0);
  EXPECT_GT(grown, 0);
  for (const float w : outcome.weights) ASSERT_TRUE(std::isfinite(w));
}

}  // namespace
}  // namespace athanor::tests::parallel_test
