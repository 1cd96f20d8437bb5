// Local SGD with what changes no result inside a replica group, hybrid sharding and micro-batches by speed, and with dynamic
// loss scales. That hybrid sharding keeps the bits is rows of train/layouts.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "athanor/parallel/data/load_balance.h"
#include "support/units.h"
#include "train/layouts/layout_case.h"
#include "train/local_sgd_training.h"

namespace athanor::tests::local_sgd_modes_test {
namespace {

Config wide_groups(const std::string& optimizer, const Axes& axes) {
  return in_axes(several_blocks(local_sgd("llama", optimizer)), axes);
}

TEST(LocalSgdHybrid, AForgottenSumAcrossIsCaught) {
  const Config config = wide_groups("sgd", {.dp = 8, .zero = 2, .shard = 2, .group = 4});
  const VerifyRun one = run_layout(one_process(config));
  // Two sets of shards of a replica group that share nothing.
  EXPECT_TRUE(is_caught(config, one,
                        {.groups = [](Groups& groups) { groups.dense.replicate = groups.pipeline; }}, 1e-4));
}

// The ranks of a replica group with the same range share it: 2 (H-1)/H 4 bytes an element, however many copies there are.
TEST(LocalSgdHybrid, OuterStepsSendTheDocumentedBytes) {
  for (const int64_t zero : {1, 2, 3}) {
    std::atomic<int64_t> sent = 0, shares = 0;
    const Config config = wide_groups("sgd", {.dp = 8, .zero = zero, .shard = 2, .group = 4});
    run_layout(config, {.end = [&](Training& training, TrainState&, World&) {
                 int64_t kept = 0;
                 for (const auto& param : training.model->params()) kept += param->range().count();
                 sent += training.groups().dense.average->traffic().total().bytes;
                 shares += (kept + 1) / 2;
               }});
    EXPECT_EQ(sent, 2 /*outer steps*/ * 4 * shares) << zero;  // two replica groups, two copies
    const int64_t params = num_params(config.model);
    EXPECT_GE(shares, 2 * params);  // of each replica group all
    EXPECT_LE(shares, 2 * (params + 4));
  }
}

TEST(LocalSgdHybrid, WhatDoesNotDivideIsNamedWithTheNearest) {
  Config config = wide_groups("sgd", {.dp = 8, .zero = 2, .shard = 8, .group = 4});
  try {
    make_layout(config, {.world_size = 8});
    FAIL() << "shards of eight in replica groups of four";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "parallel.shard_degree: got 8 in replica groups of 4 ranks (local_sgd.group_size), expected "
                 "a divisor");
    EXPECT_EQ(error.hint(), "the nearest is 4");
  }
  config.local_sgd.group_size = 0;  // "auto", on hosts of five
  config.parallel.shard_degree = 2;
  const auto group_ranks = [&](int of_host) {
    return make_layout(config, {.world_size = 8, .ranks_of_host = of_host}).replica_group_ranks();
  };
  EXPECT_EQ(group_ranks(5), 4);
  EXPECT_EQ(group_ranks(1), 2) << "a shard group at least";
}

// Ranks deal out the micro-batches of their own replica group, by speeds that differ from replica group to replica group.
TEST(LocalSgdBalance, TheBitsDoNotChangeWhoeverComputesAMicroBatch) {
  for (const char* optimizer : {"adamw", "sgd"})
    for (const int zero : {0, 1}) {
      Config config = wide_groups(optimizer, {.dp = 6, .zero = zero, .group = 3});
      config.train.global_batch_size = 26;  // seven micro-batches of one replica group, six of the other
      std::vector<int64_t> partitioned[6];  // by rank
      const VerifyRun many =
          run_layout(config, {.begin = [&](Training& training, TrainState&, World& world) {
                       const int replica_group = world.rank() / 3, place = world.rank() % 3;
                       Group& group = *training.groups().dense.sum;
                       LoadBalance balance(group, every_rank_alone(group),
                                           training.role->summed_micro_batches(training.num_micro_batches),
                                           {.every = 1});
                       balance.add((place == replica_group ? 4.0 : 1.0) *
                                   static_cast<double>(training.own_micro_batches().size()));
                       ASSERT_TRUE(balance.rebalance());
                       training.role->gradients()->share_micro_batches(balance.counts());
                       partitioned[world.rank()] = balance.counts();
                     }});
      for (int rank = 0; rank < 6; ++rank)
        EXPECT_EQ(partitioned[rank],
                  (rank < 3 ? std::vector<int64_t>{1, 3, 3} : std::vector<int64_t>{3, 1, 2}));
      EXPECT_TRUE(compare(many, run_once(one_process(config))).bitwise) << optimizer << " zero " << zero;
    }
}

struct Scaled {
  VerifyRun run;
  TrainState state;  // at the end
};

Scaled run_scaled(const Config& config) {
  Scaled scaled;
  scaled.run = run_layout(config, {.end = [&](Training&, TrainState& state, World& world) {
                            if (world.rank() == 0) scaled.state = state;
                          }});
  return scaled;
}

// Steps that overflow are skipped by all replica groups, which have one scale, and meet all the same.
TEST(LocalSgdF16, ReplicaGroupsSkipTogetherAndHaveTheBitsOfOneProcessEach) {
  for (const char* optimizer : {"adamw", "sgd"})
    for (const double scale : {64.0, 0x1p40}) {
      const Config config = in_axes(local_sgd_in_f16(optimizer, scale), {.dp = 4, .group = 2});
      const Scaled one = run_scaled(one_process(config));
      EXPECT_EQ(one.state.updates<config.train.steps, scale> 1e6) << "skipped steps";
      for (const int zero : {0, 1, 3}) {
        const Scaled got =
            run_scaled(in_axes(local_sgd_in_f16(optimizer, scale), {.dp = 4, .zero = zero, .group = 2}));
        EXPECT_TRUE(compare(got.run, one.run).bitwise) << optimizer << " zero " << zero << " scale " << scale;
        EXPECT_EQ(got.state.to_json(), one.state.to_json());
        for (const auto& [name, values] : got.run.weights) {
          if (!name.starts_with("model.")) continue;
          EXPECT_EQ(got.run.weights.at("replica.0." + name), values) << name;
          EXPECT_EQ(got.run.weights.at("replica.1." + name), values) << name;
        }
      }
      if (scale > 1e6) continue;
      Config exact = config;
      exact.precision.compute = "f32";
      const VerifyRun f32 = run_layout(exact);
      EXPECT_NEAR(one.run.losses.back(), f32.losses.back(), 0.01 * f32.losses.back()) << optimizer;
    }
}

TEST(LocalSgdF16, ReplicaGroupsAgree) {
  const auto groups = make_thread_groups(2);
  run_ranks(groups, [&](Group& across) {
    Engine own;
    const auto inner = make_single_group();
    const auto model = make_model(local_sgd("llama", "sgd").model);
    model->allocate(own.arena, Dtype::f16, true);
    OuterSync outer(model->params(), {.inner = inner.get(), .across = &across}, own.arena, {.every = 2});
    EXPECT_TRUE(outer.is_true_everywhere(true));
    EXPECT_FALSE(outer.is_true_everywhere(across.rank() == 0));
    EXPECT_FALSE(outer.is_true_everywhere(false));
    EXPECT_EQ(across.traffic().total().bytes, 3 * 8);  // 2 (H-1)/H 8 bytes each time
  });
}

// Between the largest scales of the two replica groups the gradient of one is finite and that of the other is not: a forgotten
// agreement shows.
TEST(LocalSgdF16, AnOverflowOfOneReplicaGroupIsSkippedByAll) {
  const auto one_step = [](double scale) {
    Config config = in_axes(local_sgd_in_f16("sgd", scale), {.dp = 2, .group = 1});
    config.local_sgd.sync_interval = config.train.steps = 1;
    return config;
  };
  const auto is_finite = [&](int64_t replica_group, double scale) {
    Config alone = one_step(scale);
    alone.local_sgd.sync_interval = 0;
    alone.parallel.dp = 1;
    alone.train.global_batch_size /= 2;
    const auto read = [&](int64_t step, int64_t micro_batch, Batch& batch) {
      batch = make_batch(one_step(scale), step, 4 * replica_group + micro_batch);
    };
    int64_t updates = 0;
    run_layout(alone, 2, read, 1, 1,
               {.end = [&](Training&, TrainState& state, World&) { updates = state.updates; }});
    return updates == 1;
  };
  double largest[] = {1.0, 1.0};
  for (const int64_t replica_group : {0, 1})
    for (int bits = 0; bits < 17; ++bits) {
      const double factor = std::exp2(std::exp2(-bits));
      while (is_finite(replica_group, largest[replica_group] * factor)) largest[replica_group] *= factor;
    }
  ASSERT_GT(std::abs(largest[0] / largest[1] - 1.0), 1e-4);
  const double scale = std::sqrt(largest[0] * largest[1]);
  EXPECT_NE(is_finite(0, scale), is_finite(1, scale));
  run_layout(one_step(scale), {.end = [&](Training&, TrainState& state, World&) {
               EXPECT_EQ(state.updates, 0);
               EXPECT_EQ(state.loss_scale.scale, scale / 2.0);
             }});
}

}  // namespace
}  // namespace athanor::tests::local_sgd_modes_test
