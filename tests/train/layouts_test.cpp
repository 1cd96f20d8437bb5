// Law 1 for whole layouts, as `train` runs them: pipelines of every schedule with data, tensor and sequence
// parallelism, ZeRO and recompute, beside one process.
#include <gtest/gtest.h>

#include "athanor/train/layout.h"
#include "athanor/train/verify.h"
#include "train/small_training.h"

namespace athanor {
namespace {

VerifyRun run_here(const Config& config, int ranks) {
  return run_layout(
      config, 2, [&](int64_t step, int64_t grain, Batch& batch) { batch = make_batch(config, step, grain); },
      config.train.steps, ranks);
}

Config deep(const std::string& family, const std::string& optimizer) {
  Config config = tiny(family);
  config.model.layers = 5;
  config.model.dropout = 0.1;
  config.optimizer.name = optimizer;
  config.parallel.reduce = "tree";
  return config;
}

struct Layout {
  const char* schedule = "1f1b";
  int64_t pp = 1, dp = 1, tp = 1, zero = 0;
  bool sp = false;
  const char* recompute = "none";
  int ranks() const { return static_cast<int>(pp * dp * tp); }
};

Config with(Config config, const Layout& layout) {
  ParallelConfig& p = config.parallel;
  p.schedule = layout.schedule;
  p.pp = layout.pp;
  p.dp = layout.dp;
  p.tp = layout.tp;
  p.zero = layout.zero;
  p.sp = layout.sp;
  p.recompute = layout.recompute;
  check_ranks(config, layout.ranks());
  return config;
}

std::string text(const Layout& l) {
  return fmt::format("{} pp {} dp {} tp {} zero {} {} {}", l.schedule, l.pp, l.dp, l.tp, l.zero,
                     l.sp ? "sp" : "", l.recompute);
}

class LayoutsTest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  Config config_ = deep(GetParam().first, GetParam().second);
};

TEST_P(LayoutsTest, PipelinesKeepTheBitsOfOneProcess) {
  const VerifyRun one = run_here(config_, 1);
  for (const Layout& layout :
       {Layout{"1f1b", 2}, Layout{"gpipe", 3, 2}, Layout{"interleaved", 2, 2, 1, 1}, Layout{"bfs", 3, 1},
        Layout{"zb-h1", 2, 3, 1, 1}, Layout{"zb-v", 2, 2, 1, 0, false, "full"},
        Layout{"dualpipe-v", 2, 1, 1, 0, false, "selective"}, Layout{"zb-h1", 4, 2}}) {
    const LayoutDifference found = compare(run_here(with(config_, layout), layout.ranks()), one);
    EXPECT_TRUE(found.bitwise) << text(layout) << ": " << found.worst();
  }
  config_.train.global_batch = 8;  // four grains: sharded gradients need as many on each rank
  const VerifyRun even = run_here(config_, 1);
  for (const Layout& layout :
       {Layout{"1f1b", 2, 2, 1, 2}, Layout{"gpipe", 2, 2, 1, 3}, Layout{"zb-v", 2, 2, 1, 3, false, "full"},
        Layout{"interleaved", 2, 4, 1, 2}, Layout{"zb-h1", 4, 2, 1, 3}, Layout{"dualpipe-v", 2, 2, 1, 2}}) {
    const LayoutDifference found = compare(run_here(with(config_, layout), layout.ranks()), even);
    EXPECT_TRUE(found.bitwise) << text(layout) << ": " << found.worst();
  }
}

// reduce = "fast" adds up each rank's grains first: pp changes nothing of what dp alone computes.
TEST_P(LayoutsTest, FastSumsAreThoseOfDataParallelism) {
  config_.parallel.reduce = "fast";
  config_.train.global_batch = 8;
  for (const int64_t zero : {0, 1, 2, 3}) {
    const VerifyRun flat = run_here(with(config_, {"1f1b", 1, 2, 1, zero}), 2);
    for (const char* schedule : {"1f1b", "zb-v"}) {
      const Layout layout{schedule, 2, 2, 1, zero};
      EXPECT_TRUE(compare(run_here(with(config_, layout), 4), flat).bitwise) << text(layout);
    }
  }
}

TEST_P(LayoutsTest, PipelinesOfTensorParallelRanks) {
  config_.train.global_batch = 8;
  config_.precision.compute = "f32";
  if (config_.optimizer.name == "adamw") config_.optimizer.lr = 3e-4;  // full steps of what is nearly zero
  for (const bool sp : {false, true}) {
    const VerifyRun flat = run_here(with(config_, {"1f1b", 1, 1, 2, 0, sp}), 2);
    for (const Layout& layout : {Layout{"1f1b", 2, 1, 2, 0, sp}, Layout{"zb-v", 2, 2, 2, 0, sp, "selective"},
                                 Layout{"gpipe", 2, 2, 2, 3, sp}})
      EXPECT_TRUE(compare(run_here(with(config_, layout), layout.ranks()), flat).bitwise) << text(layout);
    const LayoutDifference rounding = compare(flat, run_here(config_, 1));
    EXPECT_LT(rounding.worst(), 1e-5) << rounding.gradient.where << ", " << rounding.weight.where;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LayoutsTest,
                         ::testing::Values(std::pair{"llama", "adamw"}, std::pair{"gpt2", "sgd"},
                                           std::pair{"gpt2", "adamw"}, std::pair{"moe_bias", "adamw"},
                                           std::pair{"moe", "sgd"}));

}  // namespace
}  // namespace athanor
