// Law 1 for sequences and experts that are shared together: axes cp and ep on the same ranks, with all the others.
#include <gtest/gtest.h>

#include "train/layouts/layout_case.h"

namespace athanor::tests::context_expert_test {
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
  config.train.global_batch_size = 8;  // four micro-batches
  return config;
}

TEST(ContextExpert, AForgottenSumShows) {
  const Config config = balanced_experts("moe");
  const VerifyRun& one = run_once(one_process(config));
  const auto summed_over = [](Group* Groups::*axis) {
    return LayoutHooks{
        .groups = [axis](Groups& groups) { groups.expert.sum = groups.expert.shard = groups.*axis; }};
  };
  const Config many = in_axes(config, {.dp = 2, .cp = 2, .ep = 2});
  EXPECT_TRUE(is_caught(many, one, summed_over(&Groups::pipeline), 1e-3)) << "a group of one: forgotten";
  EXPECT_TRUE(is_caught(many, one, summed_over(&Groups::context), 1e-3)) << "of other experts, too";
  EXPECT_FALSE(is_caught(many, one, {}, kTolerance)) << "as it should be";
}

}  // namespace
}  // namespace athanor::tests::context_expert_test
