// Hybrid sharding: ZeRO within groups of ranks and copies of the shards across them. Its bytes are those of the formulas;
// that it computes what one process computes is rows of train/layouts.
#include <gtest/gtest.h>

#include "train/layout_run.h"
#include "train/wide_training.h"

namespace athanor::tests::hybrid_test {
namespace {

Config seven_micro_batches(const WideCase& c) {
  Config config = wide(c);
  config.train.global_batch_size = 14;
  return config;
}

// Shards of so many ranks, in so many copies.
struct Groups {
  int shard_size = 1, copies = 1;
};

Config hybrid(Config config, const Groups& groups) {
  config.parallel.dp = groups.shard_size * groups.copies;
  config.parallel.shard_degree = groups.shard_size;
  return config;
}

struct Measured {
  Traffic inner, across;  // of rank 0, of all steps
  uint64_t gradient_bytes = 0, parameter_bytes = 0, optimizer_bytes = 0;
  int64_t rows = 0;        // elements of all buckets
  int64_t value_rows = 0;  // of those that hold values
};

// Those that publish() started. In stage 3 there are none.
void finish_gathers(const Training& training, const Config& config) {
  if (config.parallel.zero_stage == 3) return;
  for (const auto& param : training.model->params()) static_cast<void>(param->value());
}

Measured measure_hybrid(const Config& config, const Groups& groups) {
  Measured measured;
  Group *inner = nullptr, *across = nullptr;
  Traffic inner_before, across_before;
  const auto lay_out = [&](Training& training, Mesh& mesh) {
    ReplicaGroups sets = make_replica_groups(mesh.world(), mesh.shape(), groups.shard_size, "set of shards");
    if (mesh.world().rank() == 0) {
      inner = sets.inner.get();
      across = sets.across.get();
    }
    training.share_shards(std::move(sets));
  };
  const auto begin = [&](Training& training, TrainState& state, World& world) {
    training.publish(state);
    finish_gathers(training, config);
    if (world.rank() != 0) return;
    inner_before = inner->traffic();
    across_before = across->traffic();
  };
  const auto end = [&](Training& training, TrainState&, World& world) {
    finish_gathers(training, config);
    if (world.rank() != 0) return;
    measured.inner = inner->traffic() - inner_before;
    measured.across = across->traffic() - across_before;
    const auto held = [&](Category category) {
      return training.arena.usage().current[static_cast<size_t>(category)];
    };
    measured.optimizer_bytes = held(Category::optimizer);
    measured.gradient_bytes = held(Category::gradients);
    measured.parameter_bytes = held(Category::parameters);
    const Buckets buckets(training.model->weights(), {.rows = groups.shard_size,
                                                      .bucket_bytes = config.parallel.bucket_bytes,
                                                      .by_unit = config.parallel.zero_stage == 3});
    for (size_t b = 0; b < buckets.list.size(); ++b) {
      measured.rows += buckets.list[b].layout.count;
      if (!buckets.params(b).empty()) measured.value_rows += buckets.list[b].layout.count;
    }
  };
  run_layout(hybrid(config, groups), {.lay_out = lay_out, .begin = begin, .end = end});
  return measured;
}

// The ranks of dp in sets of so many, whatever the config says of them.
LayoutHooks in_sets(int shard_size) {
  return {.lay_out = [shard_size](Training& training, Mesh& mesh) {
    training.share_shards(make_replica_groups(mesh.world(), mesh.shape(), shard_size, "set of shards"));
  }};
}

// One group is plain ZeRO: the order of sums is the same, too.
TEST(Hybrid, OneGroupIsPlainZero) {
  Config config = seven_micro_batches({"llama", "f32", 0.0, "adamw", "none"});
  config.parallel.dp = 2;
  for (const int stage : {1, 2, 3}) {
    config.parallel.zero_stage = stage;
    EXPECT_TRUE(compare(run_layout(config, in_sets(2)), run_layout(config)).bitwise) << stage;
  }
}

TEST(Hybrid, BytesAreThoseOfTheFormulas) {
  Config config = seven_micro_batches({"gpt2", "bf16", 0.0, "adamw", "none"});
  config.train.global_batch_size = 12;  // six micro-batches: each rank has the same number
  const Groups groups{3, 2};
  const int64_t steps = config.train.steps, s = groups.shard_size, r = groups.copies;
  for (const int stage : {1, 2, 3}) {
    config.parallel.zero_stage = stage;
    const Measured m = measure_hybrid(config, groups);
    const int64_t all_gathered = m.inner.of(Collective::all_gather).bytes;
    // Rows are f32 sums and bf16 values; each goes to all others of its group.
    EXPECT_EQ(m.inner.of(Collective::reduce_scatter).bytes, steps * (s - 1) * 4 * m.rows) << stage;
    EXPECT_EQ(m.across.of(Collective::all_reduce).bytes, steps * 2 * (r - 1) * 4 * m.rows / r) << stage;
    EXPECT_EQ(m.across.total().bytes, m.across.of(Collective::all_reduce).bytes) << stage;
    // A micro-batch a rank. In stage 3 every unit is gathered on the way to the loss and on the way back.
    EXPECT_EQ(all_gathered, (stage < 3 ? 1 : 2) * steps * (s - 1) * 2 * m.value_rows) << stage;
  }
}

// Shares are those of a group, however many groups there are.
TEST(Hybrid, MemoryIsThatOfTheShardSize) {
  Config config = seven_micro_batches({"llama", "bf16", 0.0, "adamw", "none"});
  for (const int stage : {1, 2, 3}) {
    config.parallel.zero_stage = stage;
    const Measured several = measure_hybrid(config, {2, 3}), one = measure_hybrid(config, {2, 1});
    EXPECT_EQ(several.optimizer_bytes, one.optimizer_bytes);
    EXPECT_EQ(several.gradient_bytes, one.gradient_bytes);
    EXPECT_EQ(several.parameter_bytes, one.parameter_bytes);
  }
}

TEST(Hybrid, AForgottenSumAcrossIsCaught) {
  Config config = seven_micro_batches({"llama", "f32", 0.0, "sgd", "none"});
  const VerifyRun one = run_layout(one_process(config));
  config.parallel.dp = 4;
  config.parallel.zero_stage = 2;
  // Two groups that share nothing, each with half of the micro-batches.
  EXPECT_TRUE(is_caught(config, one,
                        {.lay_out =
                             [](Training& training, Mesh& mesh) {
                               ReplicaGroups groups =
                                   make_replica_groups(mesh.world(), mesh.shape(), 2, "set of shards");
                               groups.across = make_single_group();
                               training.share_shards(std::move(groups));
                             }},
                        1e-4));
}

TEST(Hybrid, WhatDoesNotDivideIsNamedWithTheNearest) {
  Config config = seven_micro_batches({"llama", "f32", 0.0, "sgd", "none"});
  config.parallel.zero_stage = 2;
  config.parallel.shard_degree = 4;
  try {
    check_ranks(config, 6);
    FAIL() << "six ranks in groups of four";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "parallel.shard_degree: got 4 for 6 ranks of parallel.dp, expected a divisor");
    EXPECT_EQ(error.hint(), "the nearest is 3");
  }
}

TEST(Hybrid, RefusesWhatHasNoShards) {
  Config config = seven_micro_batches({"llama", "f32", 0.0, "sgd", "none"});
  config.parallel.dp = 4;
  config.parallel.zero_stage = 0;
  EXPECT_THROW(run_layout(config, in_sets(2)), Error);
  config.parallel.zero_stage = 2;
  EXPECT_THROW(run_layout(config, in_sets(1)), Error);
  config.parallel.dp = 8;
  EXPECT_THROW(run_layout(config, in_sets(4)), Error);  // eight ranks for seven micro-batches
}

}  // namespace
}  // namespace athanor::tests::hybrid_test
