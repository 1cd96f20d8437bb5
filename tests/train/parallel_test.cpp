// Law 1 and law 5 for data parallelism: any number of ranks computes what one process computes.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <mutex>
#include <ostream>

#include "athanor/comm/thread.h"
#include "athanor/config/presets.h"
#include "athanor/train/memory_plan.h"
#include "athanor/train/setup.h"
#include "support/engine.h"

namespace athanor {
namespace {

Config tiny(const std::string& family) {
  Config config;
  config.model.family = family;
  config.model.layers = 2;
  config.model.width = 24;
  config.model.heads = 4;
  config.model.kv_heads = family == "llama" ? 2 : 4;
  config.model.vocab_size = 41;
  config.model.max_seq_len = 16;
  config.model.tie_embeddings = family == "gpt2";
  config.model.bias = family == "gpt2";
  config.model = complete_model(config.model, 41, 12);
  config.data.seq_len = 12;
  config.train.global_batch = 10;
  config.train.micro_batch = 2;  // five grains: uneven for two, three and four ranks
  config.train.steps = 4;
  config.schedule.warmup_steps = 2;
  config.optimizer.lr = 1e-2;
  config.parallel.bucket_bytes = 4096;  // many buckets
  return config;
}

// The tokens of grain g of step s: made from their address, like everything random.
Batch make_batch(const Config& config, int64_t step, int64_t grain) {
  Batch batch;
  batch.step = step;
  batch.grain = grain;
  batch.first_index = grain * config.train.micro_batch;
  batch.seq_len = config.data.seq_len;
  batch.num_sequences = std::min(config.train.micro_batch, config.train.global_batch - batch.first_index);
  const RandomStream stream(5, "tokens");
  for (int64_t b = 0; b < batch.num_sequences; ++b) {
    batch.channel_of.push_back(static_cast<int32_t>((batch.first_index + b) % 2));
    for (int64_t t = 0; t < batch.seq_len; ++t) {
      const auto at = static_cast<uint64_t>((batch.first_index + b) * batch.seq_len + t);
      batch.tokens.push_back(static_cast<int32_t>(stream.word(at, static_cast<uint64_t>(step)) % 41));
      batch.targets.push_back(static_cast<int32_t>((batch.tokens.back() * 7 + 3) % 41));
    }
  }
  return batch;
}

struct Outcome {
  std::vector<StepResult> steps;
  std::vector<float> weights;
};

// The numbers of law 5 as bits: a gradient norm that is not a number equals itself.
std::vector<uint64_t> bits(const StepResult& step) {
  std::vector<uint64_t> all = {std::bit_cast<uint64_t>(step.loss), std::bit_cast<uint64_t>(step.grad_norm),
                               std::bit_cast<uint64_t>(step.loss_scale), static_cast<uint64_t>(step.tokens)};
  for (const double loss : step.channel_loss) all.push_back(std::bit_cast<uint64_t>(loss));
  return all;
}

bool same_bits(const Outcome& a, const Outcome& b) {
  for (size_t i = 0; i < a.steps.size(); ++i)
    if (bits(a.steps[i]) != bits(b.steps[i])) return false;
  return a.weights == b.weights;
}

Outcome run(const Config& config, int ranks, int threads = 1) {
  const auto groups = make_thread_groups(ranks);
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  run_ranks(groups, [&](Group& group) {
    Engine engine(threads);
    Training training(config, 2, group, engine.arena, nullptr, nullptr);
    training.allocate();
    training.model->initialize(config.train.seed);
    TrainState state = first_state(config);
    Outcome& outcome = outcomes[static_cast<size_t>(group.rank())];
    Batch batch;
    for (int64_t step = 1; step <= config.train.steps; ++step) {
      int64_t grain = training.parallel->grains_of_step(training.num_grains).first;
      outcome.steps.push_back(training.runner->run(state, [&]() -> const Batch& {
        batch = make_batch(config, step, grain++);
        return batch;
      }));
    }
    for (const auto& param : training.model->params()) {
      std::vector<float> values(static_cast<size_t>(param->numel()));
      param->load(values.data());
      outcome.weights.insert(outcome.weights.end(), values.begin(), values.end());
    }
  });
  for (const Outcome& outcome : outcomes) EXPECT_TRUE(same_bits(outcome, outcomes[0])) << "ranks disagree";
  return outcomes[0];
}

struct Case {
  const char* family;
  const char* compute;
  double dropout;
  const char* optimizer;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.family << " " << c.compute << " " << c.optimizer << (c.dropout > 0 ? " dropout" : "");
}

class ParallelTest : public ::testing::TestWithParam<Case> {};

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

INSTANTIATE_TEST_SUITE_P(All, ParallelTest,
                         ::testing::Values(Case{"llama", "f32", 0.0, "adamw"},
                                           Case{"llama", "bf16", 0.1, "adamw"},
                                           Case{"gpt2", "f32", 0.1, "sgd"},
                                           Case{"gpt2", "bf16", 0.0, "adamw"},
                                           Case{"gpt2", "f16", 0.1, "adamw"}));

TEST(Parallel, MoreRanksThanGrainsAreRefused) {
  EXPECT_THROW(run(tiny("llama"), 6), Error);
}

TEST(Parallel, TheLastGrainMayBeSmaller) {
  Config config = tiny("llama");
  config.train.micro_batch = 4;  // grains of 4, 4 and 2
  config.parallel.reduce = "tree";
  EXPECT_TRUE(same_bits(run(config, 1), run(config, 3)));
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

// Law 7: the null device predicts the peak of the real one.
TEST(MemoryPlan, EqualsTheMeasuredPeak) {
  for (const char* family : {"llama", "gpt2"})
    for (const char* reduce : {"fast", "tree"})
      for (const char* recompute : {"none", "full"})
        for (const int ranks : {1, 3}) {
          Config config = tiny(family);
          config.parallel.reduce = reduce;
          config.parallel.recompute = recompute;
          config.precision.compute = "bf16";
          const auto groups = make_thread_groups(ranks);
          run_ranks(groups, [&](Group& group) {
            Engine engine;
            Training training(config, 2, group, engine.arena, nullptr, nullptr);
            training.allocate();
            training.model->initialize(1);
            TrainState state = first_state(config);
            Batch batch;
            for (int64_t step = 1; step <= 2; ++step) {
              int64_t grain = training.parallel->grains_of_step(training.num_grains).first;
              training.runner->run(state, [&]() -> const Batch& {
                batch = make_batch(config, step, grain++);
                return batch;
              });
            }
            const MemoryPlan plan = plan_memory(config, 2, group.rank(), ranks);
            EXPECT_EQ(plan.usage.peak_total, engine.arena.usage().peak_total)
                << family << reduce << recompute << ranks;
          });
        }
}

}  // namespace
}  // namespace athanor
