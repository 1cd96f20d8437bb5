// Snapshots in slots: they change no bit of a training, and hold all of a step at any instant.
#include <gmock/gmock.h>
#include <unistd.h>

#include "athanor/base/host_memory.h"
#include "athanor/engine/memory_plan.h"
#include "support/tiers.h"
#include "train/held_slots.h"
#include "train/layout_run.h"
#include "train/layouts/layout_case.h"
#include "train/whole_run.h"

namespace athanor::tests::slots_run_test {
namespace {

using ::testing::HasSubstr;

struct Case {
  std::string family, optimizer;
  Axes axes;
  std::function<void(Config& config)> change = [](Config&) {};
};

void PrintTo(const Case& row, std::ostream* out) {
  *out << row.family << " " << row.optimizer << " " << text_of(row.axes);
}

Config config_of(const Case& row) {
  Config config = in_axes(uneven(row.family, row.optimizer), row.axes);
  if (row.axes.ep > 1) {
    config.train.global_batch_size = 8;
    config.model.num_experts = 6;
  }
  row.change(config);
  return config;
}

void in_bf16(Config& config) {
  config.precision.compute = "bf16";
}

// Steps that overflow are skipped: their values go from one slot to the other as they are.
void in_f16(Config& config) {
  config.precision.compute = "f16";
  config.precision.loss_scale = 1e9;
}

class SameBits : public testing::TestWithParam<Case> {};

// Law 7: and the memory that was planned.
TEST_P(SameBits, WithSlotsWithCopiesAndWithout) {
  Config config = config_of(GetParam());
  config.snapshot.mode = "off";
  const VerifyRun off = run_layout(config, LayoutHooks{}, 4);
  for (const char* mode : {"slots", "copy"}) {
    config.snapshot.mode = mode;
    LayoutHooks hooks;
    hooks.end = [&](Training& training, TrainState&, World& world) {
      const PlanRequest request{.config = config,
                                .num_channels = 2,
                                .rank = world.rank(),
                                .world_size = world.size(),
                                .snapshot = choose_snapshot(config, training.layout(), false)};
      const MemoryUsage plan = plan_memory(request).usage, measured = training.arena.usage();
      for (const Category kept :
           {Category::parameters, Category::gradients, Category::optimizer, Category::snapshot})
        EXPECT_EQ(plan.peak[static_cast<size_t>(kept)], measured.peak[static_cast<size_t>(kept)])
            << name_of(kept) << ", " << mode << ", rank " << world.rank();
    };
    EXPECT_TRUE(compare(run_layout(config, hooks, 4), off).bitwise) << mode;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, SameBits,
    testing::Values(Case{"llama", "adamw", {}}, Case{"gpt2", "sgd", {}}, Case{"llama", "adamw", {}, in_bf16},
                    Case{"llama", "sgd", {.dp = 2}, in_f16}, Case{"gpt2", "adamw", {.dp = 2, .zero = 1}},
                    Case{"llama", "adamw", {.dp = 3, .zero = 2}},
                    Case{"gpt2", "adamw", {.dp = 2, .zero = 3}, in_bf16},
                    Case{"llama", "sgd", {.dp = 2, .zero = 3}}, Case{"llama", "adamw", {.tp = 2, .pp = 2}},
                    Case{"gpt2", "adamw", {.dp = 2, .pp = 2, .zero = 1}, in_f16},
                    Case{"llama", "adamw", {.cp = 2, .cp_method = "ring"}},
                    Case{"moe", "adamw", {.dp = 2, .ep = 2}},
                    Case{"moe", "lamb", {.dp = 2, .zero = 2}, in_bf16},
                    Case{"moe", "sgd", {.dp = 2, .tp = 2, .zero = 2}, in_bf16},
                    Case{"llama", "adamw", {}, [](Config& config) { config.optimizer.state = "8bit"; }},
                    Case{"llama",
                         "adamw",
                         {.dp = 2},
                         [](Config& config) {
                           config.local_sgd.sync_interval = 2;
                           config.local_sgd.outer_momentum = 0.9;
                         }},
                    Case{"llama",
                         "adamw",
                         {.dp = 2},
                         [](Config& config) {
                           config.compression.method = "powersgd";
                           config.compression.rank = 2;
                         }},
                    Case{"gpt2", "adamw", {.dp = 2}, [](Config& config) {
                           config.compression.method = "onebit-adam";
                           config.compression.warmup_steps = 2;
                         }}));

class HeldByAParent : public testing::TestWithParam<const char*> {};

TEST_P(HeldByAParent, TheLastStepIsWholeWhenTheRanksAreGone) {
  WholeRun run(2);
  run.config.snapshot.mode = GetParam();
  run.config.parallel.zero_stage = 1;
  run.decisions = {{2, SkipBatches{1}}, {4, SkipBatches{3}, "of the last step"}};
  HeldSlots held(2);
  run.train(system_env(), [&](const Config& config, World& world, TrainIo& io) {
    io.snapshot_fd = held.fds.at(static_cast<size_t>(world.rank()));
    return athanor::run::train(config, world, io);
  });
  const std::vector<SlotReader> slots = held.read();
  ASSERT_EQ(slots.size(), 2u);
  const auto newest = newest_checkpoint(system_env(), run.folder.path("runs/t"), nullptr);
  ASSERT_TRUE(newest.has_value());
  const Checkpoint checkpoint = Checkpoint::open(system_env(), *newest);
  for (const SlotReader& slot : slots) {
    EXPECT_EQ(slot.step(), checkpoint.step());
    EXPECT_EQ(TrainState::from_json(slot.state()).to_json(),
              TrainState::from_json(checkpoint.state()).to_json());
  }
  expect_equal(slots, checkpoint);
}

// Each expert has a rate of its own, so several calls of the kernel write what one checksum is of.
TEST(HeldLamb, HasTheChecksumsOfAStackOfExperts) {
  WholeRun run(1);
  add_experts(run.config.model, "moe");
  run.config.optimizer.name = "lamb";
  run.config.snapshot.mode = "slots";
  HeldSlots held(1);
  run.train(system_env(), [&](const Config& config, World& world, TrainIo& io) {
    io.snapshot_fd = held.fds.at(0);
    return athanor::run::train(config, world, io);
  });
  const std::vector<SlotReader> slots = held.read();
  ASSERT_EQ(slots.size(), 1u);
  const auto newest = newest_checkpoint(system_env(), run.folder.path("runs/t"), nullptr);
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(slots[0].step(), run.config.train.steps);
  expect_equal(slots, Checkpoint::open(system_env(), *newest));
}

INSTANTIATE_TEST_SUITE_P(Modes, HeldByAParent, testing::Values("auto", "slots", "copy"));

// As if so many ranks were on this host that its memory is enough without slots and not with them.
TEST(SnapshotModes, AutoGoesWithoutWhereTheirMemoryIsNotThere) {
  const auto trained = [](const char* mode, int ranks_of_host) {
    WholeRun run(2);
    run.config.snapshot.mode = mode;
    HeldSlots held(2);
    const TrainReport report = run.train(system_env(), [&](const Config& config, World& world, TrainIo& io) {
      io.snapshot_fd = held.fds.at(static_cast<size_t>(world.rank()));
      if (ranks_of_host > 0) io.ranks_of_host = ranks_of_host;
      return athanor::run::train(config, world, io);
    });
    return std::pair(report, lseek(held.fds[0], 0, SEEK_END) > 0);
  };
  const auto [with, has_slots] = trained("auto", 0);
  const auto [without, has_none] = trained("off", 0);
  EXPECT_TRUE(has_slots);
  EXPECT_FALSE(has_none);
  ASSERT_GT(static_cast<double>(with.planned_bytes), 1.2 * static_cast<double>(without.planned_bytes));
  const uint64_t between = (with.planned_bytes + without.planned_bytes) / 2;
  const auto many = static_cast<int>(available_memory_bytes() / between);
  const auto [chosen, has_chosen_slots] = trained("auto", many);
  EXPECT_FALSE(has_chosen_slots);
  EXPECT_EQ(chosen.planned_bytes, without.planned_bytes);
  EXPECT_EQ(chosen.digest, with.digest);
  EXPECT_THAT([&] { trained("slots", many); }, testing::ThrowsMessage<Error>(HasSubstr("not enough memory")));
}

TEST(SnapshotModes, WhatTheyCannotDoIsRefusedByName) {
  const auto refusal = [](const std::function<void(Config&)>& change) {
    Config config = uneven("llama", "adamw");
    change(config);
    try {
      choose_snapshot(config, make_layout(config, {.world_size = 1}), true);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const char* mode : {"slots", "copy"}) {
    EXPECT_THAT(refusal([&](Config& config) {
                  config.snapshot.mode = mode;
                  config.offload.optimizer = "disk";
                }),
                HasSubstr("with offload.optimizer = \"disk\", expected auto or off"));
    EXPECT_THAT(refusal([&](Config& config) {
                  config.snapshot.mode = mode;
                  config.train.device = "cuda";
                }),
                HasSubstr("with train.device = \"cuda\", expected auto or off"));
  }
  Config config = uneven("llama", "adamw");
  const Layout layout = make_layout(config, {.world_size = 1});
  EXPECT_EQ(choose_snapshot(config, layout, true).mode, SnapshotMode::slots);
  EXPECT_EQ(choose_snapshot(config, layout, false).mode, SnapshotMode::off);
  config.offload.optimizer = "disk";
  EXPECT_EQ(choose_snapshot(config, layout, true).why, "the state is offloaded");
}

}  // namespace
}  // namespace athanor::tests::slots_run_test
