// Loss masks: loss and gradients are sums over the targets that count, divided by their number in the whole step, however the
// micro-batches and tokens lie on ranks. Some ranks have micro-batches or parts of sequences without any target.
#include <cmath>

#include "train/layouts/layout_case.h"

namespace athanor::tests::loss_mask_layouts_test {
namespace {

std::vector<LayoutCase> masked() {
  LayoutTable table;
  for (const char* family : {"llama", "gpt2"}) {
    Config config = with_loss_mask(tiny(family));
    config.model.num_hidden_layers = 4;
    config.parallel.reduce = "tree";
    for (const Axes& axes :
         {Axes{.pp = 2}, {.dp = 2}, {.dp = 5, .zero = 3}, {.dp = 2, .pp = 2, .schedule = "zb-v"}})
      table.as_one(family, config, axes);
  }
  for (const char* optimizer : {"adamw", "sgd"}) {
    const Config config = with_loss_mask(uneven("llama", optimizer));
    for (const Axes& axes : {Axes{.dp = 3},
                             {.dp = 2, .zero = 2},
                             {.tp = 2, .sp = true},
                             {.cp = 3},
                             {.cp = 4, .cp_method = "ulysses"},
                             {.dp = 2, .cp = 2, .reduce = "tree"},
                             {.dp = 2, .servers = 1}})
      table.as_one(std::string("llama ") + optimizer, config, axes, within(kTolerance));
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(LossMask, LayoutTest, testing::ValuesIn(masked()), layout_case_name);

// One process has no division of its own to agree with: its loss is that of the targets alone.
TEST(LossMask, OnlyTargetsCount) {
  Config config = with_loss_mask(tiny("llama"));
  config.train.steps = 1;
  int64_t targets = 0;
  for (int64_t sequence = 0; sequence < config.train.global_batch_size; ++sequence)
    for (int64_t token = 0; token < config.data.seq_len; ++token)
      targets += is_masked(config, sequence, token) ? 0 : 1;
  const Outcome one = run(config, 1);
  EXPECT_EQ(one.steps[0].tokens, targets);
  // At the first step a model knows nothing: each target costs about log(41).
  EXPECT_NEAR(one.steps[0].loss, std::log(41.0), 0.1);
  EXPECT_NEAR(one.steps[0].channel_loss[1], std::log(41.0), 0.1);
}

TEST(LossMask, AStepWithoutTargetsIsRefused) {
  const Config config = tiny("llama");
  for (const int64_t dp : {1, 2}) {
    Config layout = in_axes(config, {.dp = static_cast<int>(dp)});
    try {
      verify::run_layout(
          layout, 2,
          [&](int64_t step, int64_t micro_batch, Batch& batch) {
            batch = make_batch(layout, step, micro_batch);
            std::fill(batch.targets.begin(), batch.targets.end(), kNoTarget);
          },
          1, static_cast<int>(dp));
      ADD_FAILURE() << "a step without targets was done";
    } catch (const Failure& failure) {
      EXPECT_NE(std::string(failure.what()).find("step 1: got no token that counts in the loss"),
                std::string::npos)
          << failure.what();
    }
  }
}

}  // namespace
}  // namespace athanor::tests::loss_mask_layouts_test
