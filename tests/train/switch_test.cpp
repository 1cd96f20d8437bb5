// A switch of layouts in mid-run: the next layout starts from a snapshot of the one before, in the same process, and
// the whole computes what one process computes (law 1).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "athanor/engine/param_slices.h"
#include "train/layout_run.h"
#include "train/layouts/layout_case.h"

namespace athanor::tests::switch_test {
namespace {

VerifyRun run_in_turn(const Config& config, const std::vector<Axes>& layouts, int64_t steps_each,
                      const LayoutHooks& hooks = {}) {
  std::vector<VerifySegment> segments;
  for (const Axes& axes : layouts) {
    const Config in = in_axes(config, axes);
    segments.push_back(
        {.config = in, .ranks = ranks_of(in), .last_step = (std::ssize(segments) + 1) * steps_each});
  }
  return verify::run_layouts(
      std::move(segments), 2,
      [&](int64_t step, int64_t micro_batch, Batch& batch) { batch = make_batch(config, step, micro_batch); },
      hooks);
}

std::string text_of(const std::vector<Axes>& layouts) {
  std::string text;
  for (const Axes& axes : layouts) text += (text.empty() ? "" : ", then ") + tests::text_of(axes);
  return text;
}

Config tree(Config config) {
  config.parallel.reduce = "tree";
  return config;
}

struct Chain {
  std::string family, optimizer;
  std::vector<Axes> layouts;
};

void PrintTo(const Chain& chain, std::ostream* out) {
  *out << chain.family << " " << chain.optimizer << ": " << text_of(chain.layouts);
}

class OrderKept : public testing::TestWithParam<Chain> {};

TEST_P(OrderKept, IsBitwiseOneProcess) {
  const Config config = tree(uneven(GetParam().family, GetParam().optimizer));
  const auto steps = std::ssize(GetParam().layouts);
  const VerifyRun one = run_layout(config, LayoutHooks{}, steps);
  const LayoutDifference found = compare(run_in_turn(config, GetParam().layouts, 1), one);
  EXPECT_TRUE(found.bitwise) << found.weight.where << " " << found.weight.value;
}

const std::vector<Axes> kDense{{},
                               {.dp = 2},
                               {.dp = 3, .zero = 1},
                               {.pp = 2},
                               {.dp = 2, .servers = 2},
                               {.dp = 2, .zero = 3},
                               {.dp = 2, .pp = 2, .schedule = "1f1b"},
                               {.dp = 3, .zero = 2},
                               {.recompute = "full"},
                               {.dp = 2, .pp = 2, .zero = 1}};
INSTANTIATE_TEST_SUITE_P(
    Switches, OrderKept,
    testing::Values(Chain{"llama", "adamw", kDense}, Chain{"gpt2", "sgd", kDense},
                    Chain{"moe", "adamw", {{.dp = 3}, {}, {.pp = 2}, {.dp = 2, .zero = 3}, {.dp = 2}}}));

class OrderChanged : public testing::TestWithParam<Chain> {};

TEST_P(OrderChanged, IsOneProcessWithinTheTolerance) {
  Config config = uneven(GetParam().family, GetParam().optimizer);
  if (GetParam().family == "moe") {
    config.train.global_batch_size = 8;  // as many micro-batches on each rank
    config.model.num_experts = 6;
  }
  const auto steps = std::ssize(GetParam().layouts);
  const VerifyRun one = run_layout(config, LayoutHooks{}, steps);
  const LayoutDifference found = compare(run_in_turn(config, GetParam().layouts, 1), one);
  EXPECT_LE(found.worst(), kTolerance) << found.weight.where;
  EXPECT_EQ(found.routing_flips, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Switches, OrderChanged,
    testing::Values(
        Chain{"llama",
              "sgd",
              {{.tp = 2},
               {.dp = 2, .zero = 3},
               {.dp = 2, .tp = 2, .sp = true},
               {.cp = 2, .cp_method = "ring"},
               {.tp = 2, .pp = 2}}},
        Chain{"gpt2",
              "adamw",
              {{.dp = 3, .zero = 2}, {.tp = 2, .pp = 2}, {.cp = 3, .cp_method = "ring"}, {.tp = 2}, {}}},
        Chain{"moe",
              "adamw",
              {{.dp = 2, .ep = 2},
               {.tp = 2},
               {.dp = 2, .ep = 2, .zero = 3},
               {.cp = 2, .cp_method = "ring"},
               {.dp = 2, .pp = 2, .ep = 2}}}));

// Without what the snapshot brings, the next layout computes something else: each part of it shows.
TEST(Switches, StateThatIsNotBroughtShows) {
  const Config config = tree(uneven("llama", "adamw"));
  const VerifyRun one = run_layout(config, LayoutHooks{}, 4);
  for (const char* forgotten : {"model", "adam.m", "adam.v"}) {
    const LayoutHooks hooks{.begin = [&](Training& training, TrainState& state, World&) {
      if (state.step == 0) return;
      std::vector<NamedTensor> tensors = training.tensors();
      for (NamedTensor& part : tensors)
        if (part.name.starts_with(forgotten) && part.tensor.defined()) fill_zero(part.tensor);
    }};
    const LayoutDifference found = compare(run_in_turn(config, {{.dp = 2}, {.pp = 2}}, 2, hooks), one);
    EXPECT_FALSE(found.bitwise) << forgotten;
  }
}

}  // namespace
}  // namespace athanor::tests::switch_test
