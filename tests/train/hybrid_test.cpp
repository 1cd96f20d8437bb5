// Hybrid sharding: ZeRO within groups of ranks and copies of the shards across them. With the tree it computes what one
// process computes, to the bit, and its bytes are those of the formulas.
#include <gtest/gtest.h>

#include "train/layout_run.h"
#include "train/wide_training.h"

namespace athanor {
namespace {

struct Groups {
  int shard_size = 1, copies = 1;
  int ranks() const { return shard_size * copies; }
};

struct Measured {
  Outcome outcome;
  Traffic inner, across;  // of rank 0, of all steps
  uint64_t gradient_bytes = 0, parameter_bytes = 0, optimizer_bytes = 0;
  int64_t rows = 0;        // elements of all buckets
  int64_t value_rows = 0;  // of those that hold values
};

Config seven_grains(const WideCase& c) {
  Config config = wide(c);
  config.train.global_batch = 14;
  return config;
}

std::vector<int> every(int first, int step, int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
  return ranks;
}

class HybridRank {
 public:
  HybridRank(const Config& config, const Groups& groups, World& world)
      : config_(config),
        num_grains_((config.train.global_batch + config.train.micro_batch - 1) / config.train.micro_batch),
        model_(make_model(config.model)) {
    const int group = world.rank() / groups.shard_size, place = world.rank() % groups.shard_size;
    inner_ = world.make_group(every(group * groups.shard_size, 1, groups.shard_size),
                              "shards " + std::to_string(group));
    across_ =
        world.make_group(every(place, groups.shard_size, groups.copies), "copies " + std::to_string(place));
    optimizer_ = make_optimizer({.name = config.optimizer.name}, model_->params());
    const Dtype compute = parse_dtype(config.precision.compute);
    parallel_ = std::make_unique<DataParallel>(
        model_->weights(), *inner_, engine_.arena,
        DataParallelOptions{.reduce = config.parallel.reduce == "tree" ? Reduce::tree : Reduce::fast,
                            .stage = static_cast<int>(config.parallel.zero),
                            .dtype = compute,
                            .bucket_bytes = config.parallel.bucket_bytes,
                            .across = across_.get(),
                            .all = &world.all()});
    model_->allocate(engine_.arena, compute, true);
    optimizer_->allocate(engine_.arena);
    parallel_->allocate();
    model_->initialize(config.train.seed);
    parallel_->publish();
    std::vector<const Param*> declared;
    for (const auto& param : model_->params()) declared.push_back(param.get());
    runner_ = std::make_unique<StepRunner>(
        *model_, *optimizer_, *parallel_, world.all(), engine_.arena,
        StepOptions{
            .schedule = {.lr = config.optimizer.lr,
                         .steps = config.train.steps,
                         .warmup_steps = 2,
                         .min_lr_ratio = config.schedule.min_lr_ratio},
            .clip_norm = config.optimizer.clip_norm,
            .num_channels = 2,
            .pass = {.recompute = parse_recompute(config.parallel.recompute).value_or(RecomputePlan{}),
                     .num_grains = num_grains_},
            .groups = {.declared = declared}});
  }

  Measured run() {
    Measured measured;
    TrainState state = first_state(config_);
    Batch batch;
    finish_gathers();
    const Traffic inner = inner_->traffic(), across = across_->traffic();
    for (int64_t step = 1; step <= config_.train.steps; ++step) {
      const std::vector<int64_t> grains = parallel_->grains_of_step(num_grains_);
      auto grain = grains.begin();
      measured.outcome.steps.push_back(runner_->run(state, [&]() -> const Batch& {
        batch = make_batch(config_, step, *grain++);
        return batch;
      }));
    }
    finish_gathers();
    measured.inner = inner_->traffic() - inner;
    measured.across = across_->traffic() - across;
    const auto held = [&](Category category) {
      return engine_.arena.usage().current[static_cast<size_t>(category)];
    };
    measured.optimizer_bytes = held(Category::optimizer);
    measured.gradient_bytes = held(Category::gradients);
    measured.parameter_bytes = held(Category::parameters);
    const Buckets buckets(model_->weights(), {.rows = inner_->size(),
                                              .bucket_bytes = config_.parallel.bucket_bytes,
                                              .by_unit = config_.parallel.zero == 3});
    for (size_t b = 0; b < buckets.list.size(); ++b) {
      measured.rows += buckets.list[b].layout.count;
      if (!buckets.params(b).empty()) measured.value_rows += buckets.list[b].layout.count;
    }
    for (const auto& param : model_->params()) {
      std::vector<float> values(static_cast<size_t>(param->numel()));
      parallel_->load(*param, values.data());
      measured.outcome.weights.insert(measured.outcome.weights.end(), values.begin(), values.end());
    }
    return measured;
  }

 private:
  // Those that publish() started. In stage 3 there are none.
  void finish_gathers() const {
    if (config_.parallel.zero == 3) return;
    for (const auto& param : model_->params()) static_cast<void>(param->value());
  }

  Config config_;
  int64_t num_grains_;
  Engine engine_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Group> inner_, across_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<DataParallel> parallel_;
  std::unique_ptr<StepRunner> runner_;
};

Measured run_hybrid(const Config& config, const Groups& groups) {
  const auto worlds = make_thread_worlds(groups.ranks());
  std::vector<Measured> all(static_cast<size_t>(groups.ranks()));
  run_ranks(worlds, [&](World& world) {
    HybridRank rank(config, groups, world);
    all[static_cast<size_t>(world.rank())] = rank.run();
  });
  for (const Measured& each : all) EXPECT_TRUE(same_bits(each.outcome, all[0].outcome)) << "ranks disagree";
  return all[0];
}

class HybridTest : public ::testing::TestWithParam<WideCase> {};

TEST_P(HybridTest, TreeReductionGivesTheBitsOfOneProcess) {
  Config config = seven_grains(GetParam());
  config.parallel.reduce = "tree";
  const Outcome one = run(config, 1);
  for (const int stage : {1, 2, 3})
    for (const Groups groups : {Groups{2, 2}, {3, 2}, {2, 3}}) {  // seven grains: uneven
      config.parallel.zero = stage;
      EXPECT_TRUE(same_bits(one, run_hybrid(config, groups).outcome))
          << "zero " << stage << ", " << groups.copies << " groups of " << groups.shard_size;
    }
}

TEST_P(HybridTest, FastReductionAgreesWithOneProcess) {
  Config config = seven_grains(GetParam());
  const double tolerance = std::string(GetParam().compute) == "f32" ? 1e-5 : 5e-2;
  const Outcome one = run(config, 1);
  for (const int stage : {1, 2, 3}) {
    config.parallel.zero = stage;
    const Outcome many = run_hybrid(config, {2, 2}).outcome;
    EXPECT_TRUE(same_bits(many, run_hybrid(config, {2, 2}).outcome)) << "two runs of one layout";
    for (size_t i = 0; i < one.steps.size(); ++i) {
      EXPECT_NEAR(many.steps[i].loss, one.steps[i].loss, tolerance * one.steps[i].loss);
      EXPECT_NEAR(many.steps[i].grad_norm, one.steps[i].grad_norm, tolerance * one.steps[i].grad_norm);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HybridTest,
                         ::testing::Values(WideCase{"llama", "f32", 0.0, "adamw", "none"},
                                           WideCase{"gpt2", "bf16", 0.1, "sgd", "full"}));

// One group is plain ZeRO: the order of sums is the same, too.
TEST(Hybrid, OneGroupIsPlainZero) {
  Config config = seven_grains({"llama", "f32", 0.0, "adamw", "none"});
  for (const int stage : {1, 2, 3}) {
    config.parallel.zero = stage;
    EXPECT_TRUE(same_bits(run_hybrid(config, {2, 1}).outcome, run(config, 2))) << stage;
  }
}

TEST(Hybrid, BytesAreThoseOfTheFormulas) {
  Config config = seven_grains({"gpt2", "bf16", 0.0, "adamw", "none"});
  config.train.global_batch = 12;  // six grains: each rank has the same number
  const Groups groups{3, 2};
  const int64_t steps = config.train.steps, s = groups.shard_size, r = groups.copies;
  for (const int stage : {1, 2, 3}) {
    config.parallel.zero = stage;
    const Measured m = run_hybrid(config, groups);
    const int64_t all_gathered = m.inner.of(Collective::all_gather).bytes;
    // Rows are f32 sums and bf16 values; each goes to all others of its group.
    EXPECT_EQ(m.inner.of(Collective::reduce_scatter).bytes, steps * (s - 1) * 4 * m.rows) << stage;
    EXPECT_EQ(m.across.of(Collective::all_reduce).bytes, steps * 2 * (r - 1) * 4 * m.rows / r) << stage;
    EXPECT_EQ(m.across.total().bytes, m.across.of(Collective::all_reduce).bytes) << stage;
    // A grain a rank. In stage 3 every unit is gathered on the way to the loss and on the way back.
    EXPECT_EQ(all_gathered, (stage < 3 ? 1 : 2) * steps * (s - 1) * 2 * m.value_rows) << stage;
  }
}

// Shares are those of a group, however many groups there are.
TEST(Hybrid, MemoryIsThatOfTheShardSize) {
  Config config = seven_grains({"llama", "bf16", 0.0, "adamw", "none"});
  for (const int stage : {1, 2, 3}) {
    config.parallel.zero = stage;
    const Measured hybrid = run_hybrid(config, {2, 3}), plain = run_hybrid(config, {2, 1});
    EXPECT_EQ(hybrid.optimizer_bytes, plain.optimizer_bytes);
    EXPECT_EQ(hybrid.gradient_bytes, plain.gradient_bytes);
    EXPECT_EQ(hybrid.parameter_bytes, plain.parameter_bytes);
  }
}

// As `train` lays it out, with what else cuts a model.
TEST(Hybrid, TheConfigLaysItOut) {
  Config config = seven_grains({"llama", "f32", 0.1, "adamw", "none"});
  config.train.global_batch = 16;  // eight grains: pipelines with sharded gradients need as many on each rank
  config.optimizer.eps = 1e-4;     // where a gradient is little but rounding
  config.parallel.reduce = "tree";
  const VerifyRun one = run_layout(one_process(config));
  config.parallel.dp = 4;
  config.parallel.zero_shard = 2;
  for (const int stage : {1, 2, 3})
    for (const auto& [pp, tp] : {std::pair(1, 1), {2, 1}, {1, 2}}) {
      config.parallel.zero = stage;
      config.parallel.pp = pp;
      config.parallel.tp = tp;
      const LayoutDifference found = compare(run_layout(config), one);
      EXPECT_TRUE(tp == 1 ? found.bitwise : found.worst() < 1e-5) << fmt::format(
          "zero {} pp {} tp {}: loss {:.1e}, norm {:.1e}, gradient {:.1e} of {}, weight {:.1e} of {}", stage,
          pp, tp, found.loss.value, found.grad_norm.value, found.gradient.value, found.gradient.where,
          found.weight.value, found.weight.where);
    }
}

TEST(Hybrid, AForgottenSumAcrossIsCaught) {
  Config config = seven_grains({"llama", "f32", 0.0, "sgd", "none"});
  const VerifyRun one = run_layout(one_process(config));
  config.parallel.dp = 4;
  config.parallel.zero = 2;
  // Two groups that share nothing, each with half of the grains.
  EXPECT_TRUE(is_caught(config, one,
                        {.lay_out =
                             [](Training& training, Mesh& mesh) {
                               IslandGroups groups =
                                   make_islands(mesh.world(), mesh.shape(), 2, "set of shards");
                               groups.across = make_single_group();
                               training.share_shards(std::move(groups));
                             }},
                        1e-4));
}

TEST(Hybrid, WhatDoesNotDivideIsNamedWithTheNearest) {
  Config config = seven_grains({"llama", "f32", 0.0, "sgd", "none"});
  config.parallel.zero = 2;
  config.parallel.zero_shard = 4;
  try {
    check_ranks(config, 6);
    FAIL() << "six ranks in groups of four";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "parallel.zero_shard: got 4 for 6 ranks of parallel.dp, expected a divisor");
    EXPECT_EQ(error.hint(), "the nearest is 3");
  }
}

TEST(Hybrid, RefusesWhatHasNoShards) {
  Config config = seven_grains({"llama", "f32", 0.0, "sgd", "none"});
  config.parallel.zero = 0;
  EXPECT_THROW(run_hybrid(config, {2, 2}), Error);
  config.parallel.zero = 2;
  EXPECT_THROW(run_hybrid(config, {1, 2}), Error);
  EXPECT_THROW(run_hybrid(config, {4, 2}), Error);  // eight ranks for seven grains
}

}  // namespace
}  // namespace athanor
