// Law 7: the plan is what a run needs, and after its first step a run needs nothing more.
#include "athanor/train/plan/memory_plan.h"

#include <gtest/gtest.h>

#include "support/tiers.h"
#include "train/small_training.h"

namespace athanor::tests::memory_test {
namespace {

// Law 7: the null device predicts the peak of the real one.
void expect_plan_of(const Config& config, int ranks) {
  const auto groups = make_thread_groups(ranks);
  run_ranks(groups, [&](Group& group) {
    Engine engine;
    Training training(config, 2, group, engine.arena, nullptr, nullptr);
    training.allocate();
    training.model->initialize(1);
    TrainState state = first_state(config);
    Batch batch;
    for (int64_t step = 1; step <= 2; ++step) {
      const std::vector<int64_t> micro_batches =
          training.parallel->micro_batches_of_step(training.num_micro_batches);
      auto micro_batch = micro_batches.begin();
      training.runner->run(state, [&]() -> const Batch& {
        batch = make_batch(config, step, *micro_batch++);
        return batch;
      });
    }
    const MemoryPlan plan = plan_memory({config, 2, group.rank(), ranks});
    EXPECT_EQ(plan.usage.peak_total, engine.arena.usage().peak_total)
        << config.model.model_type << " " << config.parallel.reduce << " " << config.parallel.recompute
        << ", " << ranks << " ranks, zero " << config.parallel.zero_stage;
    EXPECT_EQ(plan.usage.peak, engine.arena.usage().peak);
  });
}

TEST(MemoryPlan, EqualsTheMeasuredPeak) {
  for (const char* family : {"llama", "gpt2"})
    for (const char* reduce : {"fast", "tree"})
      for (const char* recompute : {"none", "selective", "full", "group:2", "full*1,selective"}) {
        Config config = tiny(family);
        config.parallel.reduce = reduce;
        config.parallel.recompute = recompute;
        config.precision.compute = "bf16";
        for (const int ranks : {1, 3}) expect_plan_of(config, ranks);
      }
}

TEST(MemoryPlan, EqualsTheMeasuredPeakInEveryStageOfZero) {
  for (const char* family : {"llama", "gpt2"})
    for (const char* reduce : {"fast", "tree"})
      for (const int zero : {1, 2, 3})
        for (const int ranks : {2, 3}) {
          Config config = tiny(family);
          config.parallel.reduce = reduce;
          config.parallel.zero_stage = zero;
          config.parallel.recompute = zero == 3 ? "full" : "none";
          config.precision.compute = "bf16";
          expect_plan_of(config, ranks);
        }
}

// 18 bytes a parameter: 2 of its value, 4 of its gradient, 12 of f32 master and AdamW. What is divided by the number of
// ranks, and nothing else but the named buckets and gathered values (kind `communication`).
TEST(ZeroMemory, IsWhatTheStageSays) {
  LEAVE_OUT_UNDER(any_sanitizer, "it counts bytes, which are the same");
  Config config = tiny("llama");
  config.model.hidden_size = 256;
  config.model.head_dim = 64;
  config.model.intermediate_size = 688;
  config.model.num_hidden_layers = 4;
  config.model.vocab_size = 2000;
  config.precision.compute = "bf16";
  config.data.seq_len = 8;
  config.train.global_batch_size = 8;
  config.train.micro_batch_size = 1;
  config.parallel.bucket_bytes = 16 << 20;
  for (const int ranks : {2, 4, 8})
    for (const int zero : {0, 1, 2, 3}) {
      config.parallel.zero_stage = zero;
      const auto groups = make_thread_groups(ranks);
      run_ranks(groups, [&](Group& group) {
        Engine engine;
        Training training(config, 2, group, engine.arena, nullptr, nullptr);
        training.allocate();
        training.model->initialize(1);
        TrainState state = first_state(config);
        Batch batch;
        for (int64_t step = 1; step <= 2; ++step) {
          const std::vector<int64_t> micro_batches =
              training.parallel->micro_batches_of_step(training.num_micro_batches);
          auto micro_batch = micro_batches.begin();
          training.runner->run(state, [&]() -> const Batch& {
            batch = make_batch(config, step, *micro_batch++);
            return batch;
          });
        }
        const auto peak = engine.arena.usage().peak;
        const auto bytes = [&](Category category) {
          return static_cast<double>(peak[static_cast<size_t>(category)]);
        };
        const auto whole = static_cast<double>(training.model->num_params()), share = whole / ranks;
        const double values = 2 * (zero == 3 ? share : whole), gradients = 4 * (zero >= 2 ? share : whole),
                     optimizer = 12 * (zero >= 1 ? share : whole);
        EXPECT_NEAR(bytes(Category::parameters), values, 0.03 * values) << zero << " of " << ranks;
        EXPECT_NEAR(bytes(Category::gradients), gradients, 0.03 * gradients) << zero << " of " << ranks;
        EXPECT_NEAR(bytes(Category::optimizer), optimizer, 0.03 * optimizer) << zero << " of " << ranks;
        if (zero < 2) {
          EXPECT_EQ(bytes(Category::communication), 0.0);
        }
      });
    }
}

TEST(SteadyState, AsksTheSystemForNothing) {
  LEAVE_OUT_UNDER(any_sanitizer, "it counts bytes, which are the same");
  for (const char* family : {"llama", "gpt2"})
    for (const char* reduce : {"fast", "tree"})
      for (const char* recompute : {"none", "selective", "full", "group:2", "full*1,selective"}) {
        Config config = tiny(family);
        config.parallel.reduce = reduce;
        config.parallel.recompute = recompute;
        config.precision.compute = "bf16";
        config.model.dropout = 0.1;
        config.train.steps = 5;
        std::vector<MemoryUsage> after;
        run(config, 1, 2, [&](const Training& training) { after.push_back(training.arena.usage()); });
        for (size_t step = 1; step < after.size(); ++step) {
          EXPECT_EQ(after[step].slabs, after[0].slabs) << "step " << step + 1;
          EXPECT_EQ(after[step].reserved_total, after[0].reserved_total) << "step " << step + 1;
          EXPECT_EQ(after[step].current, after[0].current) << "step " << step + 1;
        }
        EXPECT_EQ(plan_memory({config, 2}).usage.reserved_total, after[0].reserved_total);
      }
}

}  // namespace
}  // namespace athanor::tests::memory_test
