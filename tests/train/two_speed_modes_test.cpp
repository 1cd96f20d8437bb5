// Two-speed synchronisation with what changes no result inside a group, hybrid sharding and micro-batches by speed, and with
// dynamic loss scales.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>

#include "athanor/parallel/data/load_balance.h"
#include "athanor/train/plan/memory_plan.h"
#include "support/temporary_folder.h"
#include "support/tiers.h"
#include "train/layout_run.h"

namespace athanor::tests::two_speed_modes_test {
namespace {

Config wide_replica_groups(const std::string& optimizer, int dp, int group) {
  Config config = tiny("llama");
  config.precision.compute = "f32";
  config.model.hidden_size = 48;  // matrices of several blocks, which ZeRO cuts
  config.model.head_dim = 12;
  config.train.global_batch_size = 16;  // eight micro-batches
  config.train.steps = 6;
  config.schedule.decay = "constant";  // runs may end early
  config.optimizer.name = optimizer;
  config.optimizer.lr = optimizer == "adamw" ? 1e-3 : 1e-1;
  config.parallel.reduce = "tree";  // inside a replica group: the bits of one process
  config.local_sgd.sync_interval = 3;
  config.parallel.dp = dp;
  config.local_sgd.group_size = group;
  return config;
}

// The last steps of a run that was saved after `saved` of them.
VerifyRun resumed(const Config& config, int64_t saved) {
  const std::string folder = temporary_path("two_speed_modes");
  std::filesystem::remove_all(folder);
  Config first = config;
  first.train.steps = saved;
  run_layout(
      first, {.end = [&](Training& training, TrainState& state, World& world) {
        write_checkpoint_at(
            system_env(), world.all(), folder,
            {.step = state.step, .state = state.to_json(), .tensors = training.tensors(), .files = {}});
      }});
  return run_layout(config, {.begin = [&](Training& training, TrainState& state, World&) {
                      const Checkpoint checkpoint = Checkpoint::open(system_env(), folder);
                      training.load(checkpoint);
                      state = TrainState::from_json(checkpoint.state());
                      training.publish(state);
                    }});
}

void expect_last_steps(const VerifyRun& rest, const VerifyRun& whole, const std::string& what) {
  const auto left = static_cast<std::ptrdiff_t>(rest.losses.size());
  EXPECT_EQ(rest.losses, std::vector<double>(whole.losses.end() - left, whole.losses.end())) << what;
  EXPECT_EQ(rest.weights, whole.weights) << what;
  EXPECT_EQ(rest.state, whole.state) << what;
}

Config with_shards(Config config, int zero, int shard) {
  config.parallel.zero_stage = zero;
  config.parallel.shard_degree = shard;
  return config;
}

TEST(TwoSpeedHybrid, HasTheBitsOfItsDefinition) {
  LEAVE_OUT_UNDER(any_sanitizer, "a run beside its definition takes minutes");
  for (const char* optimizer : {"adamw", "sgd"}) {
    const Config eight = wide_replica_groups(optimizer, 8, 4), six = wide_replica_groups(optimizer, 6, 6);
    const VerifyRun two = run_layout(one_process(eight)), one = run_layout(one_process(six));
    for (const int zero : {1, 2, 3}) {
      EXPECT_TRUE(compare(run_layout(with_shards(eight, zero, 2)), two).bitwise)
          << optimizer << " zero " << zero;
      EXPECT_TRUE(compare(run_layout(with_shards(six, zero, 3)), one).bitwise) << "one replica group";
    }
    Config coded = eight;
    coded.local_sgd.compression = "int8";
    EXPECT_TRUE(compare(run_layout(with_shards(coded, 2, 2)), run_layout(one_process(coded))).bitwise);
    Config fast = with_shards(eight, 1, 2);
    fast.parallel.reduce = "fast";
    EXPECT_LE(compare(run_layout(fast), two).worst(), 1e-5) << optimizer;
    Config pipeline = with_shards(wide_replica_groups(optimizer, 4, 4), 2, 2);
    pipeline.parallel.pp = 2;
    EXPECT_TRUE(compare(run_layout(pipeline), run_layout(one_process(pipeline))).bitwise) << optimizer;
  }
}

TEST(TwoSpeedHybrid, AForgottenSumAcrossIsCaught) {
  const Config config = with_shards(wide_replica_groups("sgd", 8, 4), 2, 2);
  const VerifyRun one = run_layout(one_process(config));
  // Two sets of shards of a replica group that share nothing.
  EXPECT_TRUE(is_caught(
      config, one,
      {.lay_out =
           [](Training& training, Mesh& mesh) {
             training.split_replica_groups(make_replica_groups(mesh.world(), mesh.shape(), 4));
             ReplicaGroups shards = make_replica_groups(mesh.world(), mesh.shape(), 2, "set of shards", 4);
             shards.across = make_single_group();
             training.share_shards(std::move(shards));
           }},
      1e-4));
}

TEST(TwoSpeedHybrid, ResumesToTheSameBits) {
  for (const int zero : {1, 3}) {
    const Config config = with_shards(wide_replica_groups("adamw", 8, 4), zero, 2);
    expect_last_steps(resumed(config, 4), run_layout(config), "zero " + std::to_string(zero));
  }
}

// The ranks of a replica group with the same range share it: 2 (H-1)/H 4 bytes an element, however many copies there are.
TEST(TwoSpeedHybrid, MeetingsSendTheDocumentedBytes) {
  for (const int zero : {1, 2, 3}) {
    std::mutex mutex;
    int64_t sent = 0, expected = 0, shares = 0, params = 0;
    run_layout(with_shards(wide_replica_groups("sgd", 8, 4), zero, 2),
               {.end = [&](Training& training, TrainState&, World&) {
                 int64_t kept = 0;
                 for (const auto& param : training.model->params()) kept += param->range().count();
                 const std::lock_guard lock(mutex);
                 sent += training.replica_groups().across->traffic().total().bytes;
                 expected += 2 /*meetings*/ * 4 * ((kept + 1) / 2);  // two replica groups, two copies
                 shares += (kept + 1) / 2;
                 params = training.model->num_params();
               }});
    EXPECT_EQ(sent, expected) << zero;
    EXPECT_GE(shares, 2 * params);  // of each replica group all
    EXPECT_LE(shares, 2 * (params + 4));
  }
}

TEST(TwoSpeedHybrid, ThePlanIsTheMeasuredPeak) {
  for (const int zero : {1, 3}) {
    Config config = with_shards(wide_replica_groups("adamw", 8, 4), zero, 2);
    config.precision.compute = "bf16";
    config.local_sgd.sync_interval = 1;
    config.train.steps = 2;
    run_layout(config, {.end = [&](Training& training, TrainState&, World& world) {
                 const MemoryPlan plan = plan_memory({config, 2, world.rank(), world.size()});
                 EXPECT_EQ(plan.usage.peak_total, training.arena.usage().peak_total) << zero;
               }});
  }
}

TEST(TwoSpeedHybrid, WhatDoesNotDivideIsNamedWithTheNearest) {
  Config config = with_shards(wide_replica_groups("sgd", 8, 4), 2, 8);
  try {
    replica_group_ranks(config, 8, 8);
    FAIL() << "shards of eight in replica groups of four";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "parallel.shard_degree: got 8 in replica groups of 4 ranks (local_sgd.group_size), expected "
                 "a divisor");
    EXPECT_EQ(error.hint(), "the nearest is 4");
  }
  config.local_sgd.group_size = 0;  // "auto", on hosts of five
  config.parallel.shard_degree = 2;
  EXPECT_EQ(replica_group_ranks(config, 8, 5), 4);
  EXPECT_EQ(replica_group_ranks(config, 8, 1), 2) << "a set of shards at least";
}

// Ranks deal out the micro-batches of their own replica group, by speeds that differ from replica group to replica group.
TEST(TwoSpeedBalance, TheBitsDoNotChangeWhoeverComputesAMicroBatch) {
  for (const char* optimizer : {"adamw", "sgd"})
    for (const int zero : {0, 1}) {
      Config config = wide_replica_groups(optimizer, 6, 3);
      config.train.global_batch_size = 26;  // seven micro-batches of one replica group, six of the other
      config.parallel.zero_stage = zero;
      const VerifyRun one = run_layout(one_process(config));
      std::mutex mutex;
      std::map<int, std::vector<int64_t>> partitioned;  // by replica group
      const VerifyRun many =
          run_layout(config, {.begin = [&](Training& training, TrainState&, World& world) {
                       const int replica_group = world.rank() / 3, place = world.rank() % 3;
                       LoadBalance balance(training.replica_group(),
                                           training.micro_batches_of_replica_group(), {.every = 1});
                       balance.add((place == replica_group ? 4.0 : 1.0) *
                                   static_cast<double>(training.own_micro_batches().size()));
                       ASSERT_TRUE(balance.deal());
                       training.parallel->share_micro_batches(balance.counts());
                       const std::lock_guard lock(mutex);
                       partitioned[replica_group] = balance.counts();
                     }});
      EXPECT_EQ(partitioned[0], (std::vector<int64_t>{1, 3, 3}));
      EXPECT_EQ(partitioned[1], (std::vector<int64_t>{3, 1, 2}));
      EXPECT_TRUE(compare(many, one).bitwise) << optimizer << " zero " << zero;
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

Config in_f16(const std::string& optimizer, double scale) {
  Config config = wide_replica_groups(optimizer, 4, 2);
  config.precision.compute = "f16";
  config.precision.loss_scale = scale;
  config.precision.loss_scale_window = 2;
  return config;
}

// Steps that overflow are skipped by all replica groups, which have one scale, and meet all the same.
TEST(TwoSpeedF16, ReplicaGroupsSkipTogetherAndHaveTheBitsOfOneProcessEach) {
  for (const char* optimizer : {"adamw", "sgd"})
    for (const double scale : {64.0, 0x1p40}) {
      const Config config = in_f16(optimizer, scale);
      const Scaled one = run_scaled(one_process(config));
      EXPECT_EQ(one.state.updates<config.train.steps, scale> 1e6) << "skipped steps";
      for (const int zero : {0, 1, 3}) {
        Config many = config;
        many.parallel.zero_stage = zero;
        const Scaled got = run_scaled(many);
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

TEST(TwoSpeedF16, ReplicaGroupsAgree) {
  const auto groups = make_thread_groups(2);
  run_ranks(groups, [&](Group& across) {
    Engine own;
    const auto inner = make_single_group();
    const auto model = make_model(wide_replica_groups("sgd", 2, 1).model);
    model->allocate(own.arena, Dtype::f16, true);
    OuterSync outer(model->params(), *inner, across, own.arena, {.every = 2});
    EXPECT_TRUE(outer.is_true_everywhere(true));
    EXPECT_FALSE(outer.is_true_everywhere(across.rank() == 0));
    EXPECT_FALSE(outer.is_true_everywhere(false));
    EXPECT_EQ(across.traffic().total().bytes, 3 * 8);  // 2 (H-1)/H 8 bytes each time
  });
}

// Between the largest scales of the two replica groups the gradient of one is finite and that of the other is not: a forgotten
// agreement shows.
TEST(TwoSpeedF16, AnOverflowOfOneReplicaGroupIsSkippedByAll) {
  const auto one_step = [](double scale) {
    Config config = in_f16("sgd", scale);
    config.parallel.dp = 2;
    config.local_sgd.group_size = config.local_sgd.sync_interval = config.train.steps = 1;
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
  std::mutex mutex;
  run_layout(one_step(scale), {.end = [&](Training&, TrainState& state, World&) {
               const std::lock_guard lock(mutex);
               EXPECT_EQ(state.updates, 0);
               EXPECT_EQ(state.loss_scale.scale, scale / 2.0);
             }});
}

TEST(TwoSpeedF16, ResumesToTheSameBits) {
  for (const double scale : {64.0, 0x1p18}) {
    const Config config = in_f16("adamw", scale);
    expect_last_steps(resumed(config, 4), run_layout(config), "scale " + std::to_string(scale));
  }
}

}  // namespace
}  // namespace athanor::tests::two_speed_modes_test
