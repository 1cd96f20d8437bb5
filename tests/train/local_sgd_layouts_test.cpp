// Local SGD with the other axes: what one replica group computes between two outer steps, what is sent at those, and faults
// that must show. That every layout computes what one process for each group computes, resumes and is planned is rows of
// train/layouts.
#include <gtest/gtest.h>

#include <atomic>

#include "train/layouts/layout_case.h"
#include "train/local_sgd_training.h"

namespace athanor::tests::local_sgd_layouts_test {
namespace {

std::string text_of_replica_groups(const Config& config) {
  return config.model.model_type + " " + config.optimizer.name + " groups of " +
         std::to_string(config.local_sgd.group_size) + ": " + text_of(config);
}

const std::vector<std::pair<const char*, Axes>> kEveryAxis = {
    {"llama", {.dp = 4, .group = 1}},
    {"gpt2", {.dp = 4, .pp = 2, .group = 2}},
    {"llama", {.dp = 4, .cp = 2, .group = 2}},
    {"moe", {.dp = 4, .ep = 2, .group = 2}},
    {"moe", {.dp = 4, .pp = 2, .ep = 2, .zero = 1, .group = 2}},
};

// Every step, with outer lr 1 and no momentum: the mean of the weights, which for SGD is that of the gradients.
TEST(LocalSgdEveryAxis, EveryStepWithoutMomentumIsPlainAveraging) {
  for (const auto& [family, layout] : kEveryAxis) {
    Config config = in_axes(local_sgd(family, "sgd", 1), layout);
    config.model.router_aux_loss_coef = config.model.router_z_loss_coef = 0.0;
    config.local_sgd.outer_lr = 1.0;
    config.local_sgd.outer_momentum = config.optimizer.momentum = config.optimizer.max_grad_norm = 0.0;
    const VerifyRun got = run_layout(config);
    Config plain = config;
    plain.local_sgd.sync_interval = 0;
    const VerifyRun expected = run_layout(plain);
    for (size_t i = 0; i < expected.losses.size(); ++i)
      EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-6) << text_of_replica_groups(config);
    for (const auto& [name, values] : expected.weights)
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(got.weights.at(name)[i], values[i], 1e-6)
            << name << ", " << text_of_replica_groups(config);
  }
}

// Between two outer steps a replica group is a training of its own, on its own micro-batches, in the same layout, compressed
// or not.
TEST(LocalSgdEveryAxis, BetweenOuterStepsAReplicaGroupIsATrainingOfItsOwn) {
  for (const auto& [axis, kind] : {std::pair(0, "none"),
                                   {1, "none"},
                                   {1, "int8"},
                                   {2, "none"},
                                   {2, "powersgd"},
                                   {3, "none"},
                                   {3, "onebit-adam"},
                                   {4, "none"},
                                   {4, "bf16"}}) {
    const auto& [family, layout] = kEveryAxis[static_cast<size_t>(axis)];
    Config config = in_axes(local_sgd(family, "adamw", 12), layout);  // they have not met yet
    if (std::string(kind) != "none") config.parallel.reduce = "fast";
    config.compression.method = kind;
    config.compression.warmup_steps = 1;
    const VerifyRun many = run_layout(config);
    const int64_t groups = layout.dp / layout.group;
    for (int64_t h = 0; h < groups; ++h) {
      Config alone = config;
      alone.local_sgd.sync_interval = 0;
      alone.parallel.dp = layout.group;
      alone.train.global_batch_size /= groups;
      const VerifyRun one = run_layout(
          alone, 2,
          [&](int64_t step, int64_t micro_batch, Batch& batch) {
            batch = make_batch(config, step, 8 / groups * h + micro_batch);
          },
          alone.train.steps, ranks_of(alone));
      for (const auto& [own, of_all] : {std::pair(&one.weights, &many.weights),
                                        {&one.state, &many.state},
                                        {&one.gradients, &many.gradients}})
        for (const auto& [name, values] : *own)
          EXPECT_EQ(of_all->at(fmt::format("replica.{}.{}", h, name)), values)
              << name << ", " << text_of_replica_groups(config);
      if (h == 0) {
        EXPECT_EQ(many.grad_norms, one.grad_norms) << text_of_replica_groups(config);
      }
    }
  }
}

// Across replica groups, by all ranks.
int64_t sent_across(const Config& config) {
  std::atomic<int64_t> bytes = 0;
  run_layout(config, {.end = [&](Training& training, TrainState&, World&) {
               bytes += training.groups().dense.average->traffic().total().bytes;
             }});
  return bytes;
}

TEST(LocalSgdEveryAxis, OuterStepsSendTheDocumentedBytesOnceInKSteps) {
  for (const auto& [family, layout] : kEveryAxis) {
    const int64_t every_step = sent_across(in_axes(local_sgd(family, "sgd", 1), layout));
    EXPECT_GT(every_step, 0);
    for (const int64_t every : {2, 3, 6}) {
      const Config config = in_axes(local_sgd(family, "sgd", every), layout);
      EXPECT_EQ(sent_across(config) * every, every_step) << every << ": " << text_of_replica_groups(config);
    }
  }
  // Where shares have no padding 2 (H-1)/H 4 bytes a parameter and replica group: each stage and expert once.
  const auto expect_formula = [](const char* family, const Axes& axes, int64_t padding) {
    const Config config = in_axes(local_sgd(family, "sgd", 1), axes);
    EXPECT_EQ(sent_across(config),
              2 /*replica groups*/ * 6 /*steps*/ * 4 * (num_params(config.model) + padding))
        << text_of_replica_groups(config);
  };
  expect_formula("llama", {.dp = 2, .pp = 2, .group = 1}, 0);
  expect_formula("llama", {.dp = 2, .cp = 2, .group = 1}, num_params(tiny("llama").model) % 2);
  expect_formula("moe", {.dp = 4, .ep = 2, .group = 2}, 0);
}

// What a rank that leaves out a group would do.
TEST(LocalSgdEveryAxis, AForgottenGroupShows) {
  const auto caught = [&](const std::string& family, const Axes& layout,
                          const std::function<void(Groups&)>& fault) {
    const Config config = in_axes(local_sgd(family, "sgd"), layout);
    return is_caught(config, run_layout(one_process(config)), {.groups = fault}, 10 * kTolerance);
  };
  const auto none = [](Groups&) {};
  EXPECT_FALSE(caught("llama", {.dp = 2, .cp = 2, .group = 1}, none)) << "as it should be";
  EXPECT_FALSE(caught("moe", {.dp = 8, .ep = 2, .group = 4}, none)) << "as it should be";
  EXPECT_TRUE(caught("moe", {.dp = 8, .ep = 2, .group = 4}, [](Groups& groups) {
    groups.expert.sum = groups.expert.shard = groups.data;
  })) << "experts' gradients summed over all replica groups";
  EXPECT_TRUE(caught("moe", {.dp = 8, .ep = 2, .group = 4}, [](Groups& groups) {
    groups.expert.sum = groups.expert.shard = groups.pipeline;
  })) << "experts' gradients not summed in the replica group";
  EXPECT_TRUE(caught("llama", {.dp = 2, .cp = 2, .group = 1}, [](Groups& groups) {
    groups.dense.sum = groups.dense.shard = groups.dense.average;  // parts of other sequences meet
  })) << "a replica group without its ranks of cp";
}

}  // namespace
}  // namespace athanor::tests::local_sgd_layouts_test
