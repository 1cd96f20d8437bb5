// Law 7: the plan is what a run needs, and after its first step a run needs nothing more.
#include "athanor/train/memory_plan.h"

#include <gtest/gtest.h>

#include "train/small_training.h"

namespace athanor {
namespace {

// Law 7: the null device predicts the peak of the real one.
TEST(MemoryPlan, EqualsTheMeasuredPeak) {
  for (const char* family : {"llama", "gpt2"})
    for (const char* reduce : {"fast", "tree"})
      for (const char* recompute : {"none", "selective", "full", "group:2", "full*1,selective"})
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
            const MemoryPlan plan = plan_memory({config, 2, group.rank(), ranks});
            EXPECT_EQ(plan.usage.peak_total, engine.arena.usage().peak_total)
                << family << reduce << recompute << ranks;
          });
        }
}

TEST(SteadyState, AsksTheSystemForNothing) {
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
}  // namespace athanor
