// Law 7: what a run keeps is what its stage of ZeRO says, and after its first step it needs nothing more. That it is what the
// plan says is rows of train/layouts.
#include "athanor/engine/memory_plan.h"

#include <gtest/gtest.h>

#include "support/tiers.h"
#include "train/layout_run.h"

namespace athanor::tests::memory_test {
namespace {

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
  config.train.steps = 2;
  for (const int ranks : {2, 4, 8})
    for (const int zero : {0, 1, 2, 3}) {
      config.parallel.zero_stage = zero;
      config.parallel.dp = ranks;
      run_layout(
          config, {.end = [&](Training& training, TrainState&, World&) {
            const auto peak = training.arena.usage().peak;
            const auto bytes = [&](Category category) {
              return static_cast<double>(peak[static_cast<size_t>(category)]);
            };
            const auto whole = static_cast<double>(training.model->num_params()), share = whole / ranks;
            const double values = 2 * (zero == 3 ? share : whole),
                         gradients = 4 * (zero >= 2 ? share : whole),
                         optimizer = 12 * (zero >= 1 ? share : whole);
            EXPECT_NEAR(bytes(Category::parameters), values, 0.03 * values) << zero << " of " << ranks;
            EXPECT_NEAR(bytes(Category::gradients), gradients, 0.03 * gradients) << zero << " of " << ranks;
            EXPECT_NEAR(bytes(Category::optimizer), optimizer, 0.03 * optimizer) << zero << " of " << ranks;
            if (zero < 2) {
              EXPECT_EQ(bytes(Category::communication), 0.0);
            }
          }});
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
