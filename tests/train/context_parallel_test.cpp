// Law 1 for context parallelism: ranks that share sequences compute what one process computes, and documents that do not
// see each other do not in any layout.
#include <gtest/gtest.h>

#include "train/layout_run.h"

namespace athanor {
namespace {

struct ContextParallelLayout {
  int dp = 1, tp = 1;
  bool sp = false;
  int cp = 1;
};

VerifyRun run_in(Config config, const ContextParallelLayout& layout) {
  config.parallel.dp = layout.dp;
  config.parallel.tp = layout.tp;
  config.parallel.sp = layout.sp;
  config.parallel.cp = layout.cp;
  return run_layout(config);
}

void expect_each_as_one(const Config& config, const VerifyRun& one,
                        const std::vector<ContextParallelLayout>& layouts) {
  for (const ContextParallelLayout& layout : layouts) {
    const LayoutDifference found = compare(run_in(config, layout), one);
    EXPECT_LE(found.worst(), kTolerance)
        << config.parallel.cp_method << " dp " << layout.dp << " cp " << layout.cp << " tp " << layout.tp
        << (layout.sp ? " sp" : "") << ": " << found.weight.where << " " << found.gradient.where;
  }
}

struct ContextParallelCase {
  const char* family;
  const char* optimizer;
  bool documents;
};

class ContextParallelTest : public ::testing::TestWithParam<ContextParallelCase> {};

TEST_P(ContextParallelTest, EveryLayoutComputesWhatOneProcessComputes) {
  Config config = uneven(GetParam().family, GetParam().optimizer);
  config.data.document_mask = GetParam().documents;
  const VerifyRun one = run_in(config, {});
  expect_each_as_one(config, one, {{.cp = 3}, {.cp = 4}, {.dp = 2, .cp = 2}, {.tp = 2, .sp = true, .cp = 2}});
  config.parallel.cp_method = "ulysses";
  expect_each_as_one(config, one, {{.cp = 4}, {.tp = 2, .cp = 2}});
}

INSTANTIATE_TEST_SUITE_P(All, ContextParallelTest,
                         ::testing::Values(ContextParallelCase{"llama", "adamw", false},
                                           ContextParallelCase{"llama", "sgd", true},
                                           ContextParallelCase{"gpt2", "adamw", true},
                                           ContextParallelCase{"gpt2", "sgd", false}),
                         [](const auto& each) {
                           return std::string(each.param.family) + "_" + each.param.optimizer +
                                  (each.param.documents ? "_documents" : "");
                         });

TEST(ContextParallel, RecomputeAndTheTreeGoWithIt) {
  Config config = uneven("llama", "adamw");
  config.train.steps = 3;
  const VerifyRun one = run_in(config, {});
  for (const char* kind : {"ring", "ulysses"})
    for (const char* recompute : {"selective", "full"}) {
      config.parallel.cp_method = kind;
      config.parallel.recompute = recompute;
      config.parallel.reduce = "tree";
      expect_each_as_one(config, one, {{.dp = 2, .cp = 2}});
    }
}

// Choices are made token by token, and the bias moves by the counts of the whole step.
TEST(ContextParallel, ExpertsThatAreBalancedByBias) {
  for (const char* kind : {"ring", "ulysses"}) {
    Config config = uneven("moe_bias", "sgd");
    config.train.steps = 3;
    config.parallel.cp_method = kind;
    expect_each_as_one(config, run_in(config, {}), {{.cp = 2}, {.dp = 2, .cp = 2}});
  }
}

TEST(ContextParallel, ThreeRanksShareSixHeads) {
  Config config = uneven("gpt2", "sgd");
  config.model.num_attention_heads = config.model.num_key_value_heads = 6;
  config.model.head_dim = 4;
  config.parallel.cp_method = "ulysses";
  config.train.steps = 3;
  expect_each_as_one(config, run_in(config, {}), {{.cp = 3}});
}

TEST(ContextParallel, HalfPrecisionIsNear) {
  for (const char* compute : {"bf16", "f16"})
    for (const char* kind : {"ring", "ulysses"}) {
      Config config = uneven("llama", "sgd");
      config.precision.compute = compute;
      config.parallel.cp_method = kind;
      config.train.steps = 3;
      const VerifyRun one = run_in(config, {}), two = run_in(config, {.cp = 2});
      for (size_t i = 0; i < one.losses.size(); ++i) {
        EXPECT_NEAR(two.losses[i], one.losses[i], 1e-2 * one.losses[i]) << compute << " " << kind;
        EXPECT_NEAR(two.grad_norms[i], one.grad_norms[i], 3e-2 * one.grad_norms[i]) << compute << " " << kind;
      }
    }
}

TEST(ContextParallel, TwoRunsHaveTheSameBits) {
  Config config = uneven("llama", "adamw");
  config.train.steps = 3;
  const VerifyRun first = run_in(config, {.cp = 3}), second = run_in(config, {.cp = 3});
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.weights, second.weights);
}

// Documents matter, and a sequence that is one document is what it was.
TEST(Documents, AreToldApart) {
  Config config = uneven("llama", "sgd");
  config.train.steps = 2;
  const VerifyRun across = run_in(config, {});
  config.data.document_mask = true;
  EXPECT_GT(compare(run_in(config, {}), across).worst(), 100 * kTolerance);
}

}  // namespace
}  // namespace athanor
