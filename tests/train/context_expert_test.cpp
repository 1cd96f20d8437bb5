// Law 1 for sequences and experts that are shared together: axes cp and ep on the same ranks, with all the others.
#include <gtest/gtest.h>

#include "train/layout_run.h"

namespace athanor {
namespace {

// Experts that are balanced by the counts of the whole step.
Config balanced_experts(const std::string& style, const std::string& optimizer = "sgd") {
  Config config = tiny(style);
  config.precision.compute = "f32";
  config.model.num_experts = 8;
  config.model.router_aux_loss_coef = 0.0;
  config.model.router_bias_update_rate = 0.02;
  config.optimizer.name = optimizer;
  config.optimizer.lr = optimizer == "adamw" ? 1e-3 : 1e-1;
  config.data.seq_len = 11;            // parts of other lengths on each rank
  config.train.global_batch_size = 8;  // four grains
  return config;
}

struct ContextExpertLayout {
  int dp = 1, cp = 1, tp = 1, ep = 1, pp = 1;
  bool sp = false;
};

Config in_layout(Config config, const ContextExpertLayout& layout) {
  ParallelConfig& p = config.parallel;
  p.dp = layout.dp;
  p.cp = layout.cp;
  p.tp = layout.tp;
  p.ep = layout.ep;
  p.pp = layout.pp;
  p.sp = layout.sp;
  return config;
}

void expect_as_one(const Config& config, const VerifyRun& one, const ContextExpertLayout& layout) {
  const VerifyRun many = run_layout(in_layout(config, layout));
  const LayoutDifference found = compare(many, one);
  const ParallelConfig& p = config.parallel;
  EXPECT_LE(found.worst(), kTolerance)
      << p.cp_method << " dp " << layout.dp << " cp " << layout.cp << " tp " << layout.tp << " ep "
      << layout.ep << " pp " << layout.pp << (layout.sp ? " sp" : "") << " zero " << p.zero_stage << " "
      << p.reduce << ": " << found.weight.where << " " << found.gradient.where;
  for (size_t i = 0; i < one.experts.size(); ++i)  // no routing flips here: exact counts
    EXPECT_EQ(many.experts.at(i).layers, one.experts[i].layers) << "step " << i + 1;
}

class ContextExpertTest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(ContextExpertTest, EveryLayoutComputesWhatOneProcessComputes) {
  Config config = balanced_experts(GetParam().first, GetParam().second);
  const VerifyRun one = run_layout(one_process(config));
  for (const ContextExpertLayout& layout :
       {ContextExpertLayout{.cp = 2, .ep = 2}, ContextExpertLayout{.cp = 4, .ep = 2},
        ContextExpertLayout{.dp = 2, .cp = 2, .ep = 2}, ContextExpertLayout{.dp = 2, .cp = 2, .ep = 4},
        ContextExpertLayout{.cp = 2, .tp = 2, .ep = 2, .sp = true},
        ContextExpertLayout{.dp = 2, .cp = 2, .tp = 2, .ep = 4}})
    expect_as_one(config, one, layout);
  config.parallel.cp_method = "ulysses";
  expect_as_one(config, one, {.dp = 2, .cp = 2, .ep = 2});
  expect_as_one(config, one, {.cp = 4, .ep = 4});
}

INSTANTIATE_TEST_SUITE_P(All, ContextExpertTest,
                         ::testing::Values(std::pair("moe", "adamw"), std::pair("moe", "sgd"),
                                           std::pair("moe_bias", "adamw"), std::pair("moe_bias", "sgd")),
                         [](const auto& each) {
                           return std::string(each.param.first) + "_" + each.param.second;
                         });

TEST(ContextExpert, ShardsPipelinesAndRecomputeGoWithThem) {
  Config config = balanced_experts("moe_bias");
  config.train.steps = 3;
  const VerifyRun one = run_layout(one_process(config));
  for (const char* reduce : {"fast", "tree"})
    for (int zero = 0; zero <= 3; ++zero) {
      config.parallel.reduce = reduce;
      config.parallel.zero_stage = zero;
      config.parallel.recompute = zero % 2 == 0 ? "full" : "none";
      expect_as_one(config, one, {.dp = 2, .cp = 2, .ep = 2});
      expect_as_one(config, one, {.dp = 1, .cp = 2, .ep = 2, .pp = 2});
    }
}

// What is defined over all tokens of a grain, whose parts lie on several ranks: drops are counted in the order of the
// whole sequences, the balancing loss has the shares of the whole grain.
class ContextGrainTest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(ContextGrainTest, CapacityAndBalancingLossAreThoseOfTheWholeGrain) {
  Config config = balanced_experts(GetParam().first, GetParam().second);
  config.model.router_bias_update_rate = 0.0;
  config.model.router_aux_loss_coef = 0.2;
  config.model.router_z_loss_coef = 0.01;
  config.model.capacity_factor = 0.75;
  config.train.micro_batch_size = 2;
  config.train.steps = 4;
  const VerifyRun one = run_layout(one_process(config));
  const auto expect_same_grains = [&](const ContextExpertLayout& layout) {
    expect_as_one(config, one, layout);
    const VerifyRun many = run_layout(in_layout(config, layout));
    for (size_t i = 0; i < one.experts.size(); ++i) {
      EXPECT_GT(one.experts[i].drop_share, 0.0) << "or nothing is tried here";
      EXPECT_EQ(many.experts.at(i).drop_share, one.experts[i].drop_share);
      EXPECT_NEAR(many.experts.at(i).aux_loss, one.experts[i].aux_loss, 1e-6);
    }
  };
  for (const ContextExpertLayout& layout :
       {ContextExpertLayout{.cp = 2}, ContextExpertLayout{.cp = 3},
        ContextExpertLayout{.dp = 2, .cp = 2, .ep = 2}, ContextExpertLayout{.cp = 4, .ep = 2},
        ContextExpertLayout{.cp = 2, .tp = 2, .ep = 4, .sp = true},
        ContextExpertLayout{.cp = 2, .ep = 2, .pp = 2}})
    expect_same_grains(layout);
  config.parallel.cp_method = "ulysses";
  expect_same_grains({.cp = 2, .ep = 2});
  config.parallel.recompute = "full";
  expect_same_grains({.dp = 2, .cp = 2, .ep = 4});
}

INSTANTIATE_TEST_SUITE_P(All, ContextGrainTest,
                         ::testing::Values(std::pair("moe", "sgd"), std::pair("moe_bias", "sgd")),
                         [](const auto& each) {
                           return std::string(each.param.first) + "_" + each.param.second;
                         });

TEST(ContextExpert, AForgottenSumShows) {
  const Config config = balanced_experts("moe");
  const VerifyRun one = run_layout(one_process(config));
  const auto summed_over = [](Axis axis) {
    return LayoutHooks{.lay_out = [axis](Training& training, Mesh& mesh) {
      const int parts = axis == Axis::edp ? mesh.shape().expert_parts() : 0;  // others have other grains
      training.split_experts(mesh.group(Axis::ep), mesh.group(axis), parts);
      training.share_sequences(mesh.group(Axis::cp));
    }};
  };
  const Config many = in_layout(config, {.dp = 2, .cp = 2, .ep = 2});
  EXPECT_TRUE(is_caught(many, one, summed_over(Axis::pp), 1e-3)) << "a group of one: forgotten";
  EXPECT_TRUE(is_caught(many, one, summed_over(Axis::cp), 1e-3)) << "of other experts, too";
  EXPECT_FALSE(is_caught(many, one, summed_over(Axis::edp), kTolerance)) << "as it should be";
}

// Law 5: at equal cp, neither the number of ranks that share out the grains nor the stage of ZeRO is seen in a bit.
TEST(ContextParallel, TheTreeDoesNotKnowWhoComputesAGrain) {
  for (const char* family : {"llama", "gpt2"}) {
    Config config = tiny(family);  // five grains
    config.parallel.reduce = "tree";
    config.train.steps = 3;
    config.data.seq_len = 11;
    for (const int cp : {2, 3}) {
      const VerifyRun alone = run_layout(in_layout(config, {.cp = cp}));
      for (const int dp : {1, 2, 3})
        for (int zero = 0; zero <= 3; ++zero) {
          if (dp * cp > 6 || (dp == 1 && zero == 0)) continue;
          Config many = in_layout(config, {.dp = dp, .cp = cp});
          many.parallel.zero_stage = zero;
          EXPECT_TRUE(compare(run_layout(many), alone).bitwise)
              << family << " dp " << dp << " cp " << cp << " zero " << zero;
        }
    }
  }
}

TEST(ContextParallel, HybridShardsGoWithIt) {
  Config config = tiny("llama");
  config.train.steps = 3;
  config.train.global_batch_size = 12;
  config.parallel.reduce = "tree";
  const VerifyRun alone = run_layout(in_layout(config, {.cp = 2}));
  for (int zero = 1; zero <= 3; ++zero) {
    Config many = in_layout(config, {.dp = 4, .cp = 2});
    many.parallel.zero_stage = zero;
    many.parallel.shard_degree = 2;
    EXPECT_TRUE(compare(run_layout(many), alone).bitwise) << "tree, zero " << zero;
    many.precision.compute = "f32";
    many.parallel.reduce = "fast";
    Config one = one_process(config);
    one.precision.compute = "f32";
    EXPECT_LE(compare(run_layout(many), run_layout(one)).worst(), kTolerance) << "fast, zero " << zero;
  }
}

}  // namespace
}  // namespace athanor
