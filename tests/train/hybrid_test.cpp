// Hybrid sharding: ZeRO within groups of ranks and copies of the shards across them. Its bytes are those of the formulas;
// that it computes what one process computes is rows of train/layouts.
#include <gtest/gtest.h>

#include "train/layouts/layout_case.h"
#include "train/wide_training.h"

namespace athanor::tests::hybrid_test {
namespace {

Config seven_micro_batches(const WideCase& c, const Axes& axes) {
  Config config = wide(c);
  config.train.global_batch_size = 14;
  return in_axes(config, axes);
}

struct Measured {
  Traffic inner, across;  // of rank 0, of all steps
  uint64_t gradient_bytes = 0, parameter_bytes = 0, optimizer_bytes = 0;
  int64_t rows = 0;        // elements of all buckets
  int64_t value_rows = 0;  // of those that hold values
};

Measured measure_hybrid(const Config& config) {
  const auto shard = static_cast<int>(config.parallel.shard_degree);
  Measured measured;
  Traffic inner_before, across_before;
  const auto begin = [&](Training& training, TrainState& state, World& world) {
    training.role->publish(state);
    finish_gathers(training, config);
    if (world.rank() != 0) return;
    inner_before = training.groups().dense.shard->traffic();
    across_before = training.groups().dense.replicate->traffic();
  };
  const auto end = [&](Training& training, TrainState&, World& world) {
    finish_gathers(training, config);
    if (world.rank() != 0) return;
    measured.inner = training.groups().dense.shard->traffic() - inner_before;
    measured.across = training.groups().dense.replicate->traffic() - across_before;
    const auto held = [&](Category category) {
      return training.arena.usage().current[static_cast<size_t>(category)];
    };
    measured.optimizer_bytes = held(Category::optimizer);
    measured.gradient_bytes = held(Category::gradients);
    measured.parameter_bytes = held(Category::parameters);
    const Buckets buckets(training.model->weights(), {.rows = shard,
                                                      .bucket_bytes = config.parallel.bucket_bytes,
                                                      .by_unit = config.parallel.zero_stage == 3});
    for (size_t b = 0; b < buckets.list.size(); ++b) {
      measured.rows += buckets.list[b].layout.count;
      if (!buckets.params(b).empty()) measured.value_rows += buckets.list[b].layout.count;
    }
  };
  run_layout(config, {.begin = begin, .end = end});
  return measured;
}

// The ranks of dp in shard groups of so many, whatever the config says of them.
LayoutHooks in_groups_of(int ranks) {
  return {.layout = [ranks](Layout& layout) {
    layout.replicate = layout.dp() / ranks;
    layout.shard = layout.shard_degree = ranks;
  }};
}

// One group is plain ZeRO: the order of sums is the same, too.
TEST(Hybrid, OneGroupIsPlainZero) {
  for (const int stage : {1, 2, 3}) {
    const Config config =
        seven_micro_batches({"llama", "f32", 0.0, "adamw", "none"}, {.dp = 2, .zero = stage});
    EXPECT_TRUE(compare(run_layout(config, in_groups_of(2)), run_layout(config)).bitwise) << stage;
  }
}

TEST(Hybrid, BytesAreThoseOfTheFormulas) {
  constexpr int64_t s = 3, r = 2;  // ranks of a group, groups
  for (const int stage : {1, 2, 3}) {
    Config config =
        seven_micro_batches({"gpt2", "bf16", 0.0, "adamw", "none"}, {.dp = s * r, .zero = stage, .shard = s});
    config.train.global_batch_size = 12;  // six micro-batches: each rank has the same number
    const int64_t steps = config.train.steps;
    const Measured m = measure_hybrid(config);
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
  const auto measure = [](int64_t dp, int64_t zero) {
    return measure_hybrid(
        seven_micro_batches({"llama", "bf16", 0.0, "adamw", "none"}, {.dp = dp, .zero = zero, .shard = 2}));
  };
  for (const int stage : {1, 2, 3}) {
    const Measured several = measure(6, stage), one = measure(2, stage);
    EXPECT_EQ(several.optimizer_bytes, one.optimizer_bytes);
    EXPECT_EQ(several.gradient_bytes, one.gradient_bytes);
    EXPECT_EQ(several.parameter_bytes, one.parameter_bytes);
  }
}

const WideCase kSgd{"llama", "f32", 0.0, "sgd", "none"};

TEST(Hybrid, AForgottenSumAcrossIsCaught) {
  const Config config = seven_micro_batches(kSgd, {.dp = 4, .zero = 2});
  // Two groups that share nothing, each with half of the micro-batches.
  LayoutHooks apart = in_groups_of(2);
  apart.groups = [](Groups& groups) { groups.dense.replicate = groups.pipeline; };
  EXPECT_TRUE(is_caught(config, run_layout(one_process(config)), apart, 1e-4));
}

TEST(Hybrid, WhatDoesNotDivideIsNamedWithTheNearest) {
  try {
    make_layout(seven_micro_batches(kSgd, {.dp = 0, .zero = 2, .shard = 4}), {.world_size = 6});
    FAIL() << "six ranks in groups of four";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "parallel.shard_degree: got 4 for 6 ranks of parallel.dp, expected a divisor");
    EXPECT_EQ(error.hint(), "the nearest is 3");
  }
}

// Where ZeRO shards nothing, or one rank alone holds a shard, it is plain data parallelism.
TEST(Hybrid, WithoutShardsIsPlainDataParallelism) {
  const Config plain = seven_micro_batches(kSgd, {.dp = 4});
  const VerifyRun expected = run_layout(plain);
  EXPECT_TRUE(compare(run_layout(plain, in_groups_of(2)), expected).bitwise);
  EXPECT_TRUE(compare(run_layout(seven_micro_batches(kSgd, {.dp = 4, .zero = 2}), in_groups_of(1)), expected)
                  .bitwise);
}

TEST(Hybrid, RefusesRanksWithoutMicroBatches) {  // eight for seven
  EXPECT_THROW(run_layout(seven_micro_batches(kSgd, {.dp = 8, .zero = 2}), in_groups_of(4)), Error);
}

}  // namespace
}  // namespace athanor::tests::hybrid_test
