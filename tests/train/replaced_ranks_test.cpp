// A rank that is killed at any of its calls and replaced: the run goes on from memory, to the bits of one that was never
// disturbed. The survivors keep their processes, and the new rank has nothing but its predecessor's slots.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "athanor/base/philox.h"
#include "athanor/base/shared_memory.h"
#include "athanor/checkpoint/format/slot_reader.h"
#include "support/power_env.h"
#include "support/tiers.h"
#include "train/replaced_ranks.h"
#include "train/whole_run.h"

namespace athanor::tests::replaced_ranks_test {
namespace {

struct Case {
  const char* name;
  int ranks;
  std::function<void(Config& config)> change = [](Config&) {};
};
void PrintTo(const Case& row, std::ostream* out) {
  *out << row.name;
}

std::unique_ptr<WholeRun> run_of(const Case& row) {
  auto run = std::make_unique<WholeRun>(row.ranks);
  run->config.checkpoint.every_steps = 0;  // nothing but memory has the steps
  run->config.train.steps = 3;
  run->config.train.eval_every = 2;
  run->config.snapshot.mode = "slots";
  row.change(run->config);
  return run;
}

void train_with(ReplacedRanks& launcher, const WholeRun& run) {
  PowerEnv env(run.folder.path("runs/t"));
  const TrainReport report = run.train(env, [&](const Config& config, World& world, TrainIo& io) {
    return launcher.train(config, world.rank(), io);
  });
  EXPECT_EQ(report.status, "finished");
}

class ReplacedRank : public testing::TestWithParam<Case> {};

TEST_P(ReplacedRank, GoesOnFromMemoryToTheSameBits) {
  const auto calm = run_of(GetParam());
  ReplacedRanks nobody(calm->ranks, {});
  train_with(nobody, *calm);
  const History whole = calm->history();
  ASSERT_EQ(std::ssize(whole.steps), 3);
  const int64_t stride = whole_walks() > 0 ? whole_walks() : any_sanitizer ? 29 : 7;
  int64_t kills = 0, in_place = 0;
  for (int rank = 0; rank < calm->ranks; ++rank)
    for (int64_t call = rank; call < nobody.num_calls(rank); call += stride) {
      SCOPED_TRACE(fmt::format("rank {}, call {} of {}", rank, call, nobody.num_calls(rank)));
      const auto run = run_of(GetParam());
      ReplacedRanks launcher(run->ranks, {{.rank = rank, .call = call}});
      train_with(launcher, *run);
      ASSERT_EQ(launcher.killed(), 1);
      EXPECT_EQ(run->history(), whole);
      for (const StepMetrics& m : run->metrics())
        EXPECT_TRUE(m.generation == 0 || m.step >= launcher.done_before())
            << "step " << m.step << " was done again, though step " << launcher.done_before() << " was done";
      ++kills;
      in_place += launcher.in_place();
      if (HasFailure()) return;
    }
  EXPECT_EQ(in_place > 0, calm->config.snapshot.mode != "off") << "a step in slots stays where it is";
  RecordProperty("kills", static_cast<int>(kills));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ReplacedRank,
    testing::Values(Case{"dp2", 2},
                    Case{"dp2_copy", 2, [](Config& config) { config.snapshot.mode = "copy"; }},
                    Case{"zero1", 2, [](Config& config) { config.parallel.zero_stage = 1; }},
                    Case{"zero2", 3, [](Config& config) { config.parallel.zero_stage = 2; }},
                    Case{"zero3_bf16", 2,
                         [](Config& config) {
                           config.parallel.zero_stage = 3;
                           config.precision.compute = "bf16";
                         }},
                    Case{"tp2", 2, [](Config& config) { config.parallel.tp = 2; }},
                    Case{"phases", 2,
                         [](Config& config) {
                           config.model.max_position_embeddings = 12;
                           config.phases = {
                               {.name = "short", .steps = 1},
                               {.name = "long", .steps = 2, .settings = {{"data.seq_len", int64_t{12}}}}};
                         }},
                    Case{"from_disk", 2,
                         [](Config& config) {
                           config.snapshot.mode = "off";
                           config.checkpoint.every_steps = 1;
                           config.checkpoint.keep = 2;
                         }}),
    [](const auto& row) { return std::string(row.param.name); });

// What the dead rank left is not trusted: without one of its slots the run goes on from the other one, a step older, and
// without both from the newest checkpoint.
TEST(DamagedSlots, AreRefusedAndTheRunGoesOnFromWhatIsWhole) {
  const auto make = [] {
    auto run = std::make_unique<WholeRun>(2);
    run->config.train.steps = 4;
    run->config.parallel.zero_stage = 1;  // nobody else has the part
    run->config.snapshot.mode = "slots";
    run->config.checkpoint.every_steps = 2;
    return run;
  };
  const auto calm = make();
  ReplacedRanks nobody(2, {});
  train_with(nobody, *calm);
  const History whole = calm->history();
  for (const bool both : {false, true})
    for (const double at : {0.5, 0.7, 0.9}) {
      SCOPED_TRACE(fmt::format("{} at {} of the calls", both ? "both slots" : "the newest slot", at));
      const auto run = make();
      const auto call = static_cast<int64_t>(at * static_cast<double>(nobody.num_calls(1)));
      ReplacedRanks launcher(2, {{.rank = 1, .call = call}});
      launcher.damage = [&](int fd) {
        const auto bytes = static_cast<size_t>(lseek(fd, 0, SEEK_END));
        const auto memory = map_shared_memory(bytes, fd);
        std::vector<SlotFinding> findings;
        const auto slots = SlotReader::whole({memory.get(), bytes}, {}, &findings);
        ASSERT_FALSE(slots.empty());
        for (const SlotReader& slot : slots) {
          const auto* values = slot.data(slot.tensors().front());
          memory.get()[values - memory.get() + 5] ^= std::byte{1};
          if (!both) break;
        }
      };
      train_with(launcher, *run);
      ASSERT_EQ(launcher.killed(), 1);
      EXPECT_EQ(run->history(), whole);
    }
}

// Several of them, also while others are still being replaced.
TEST_P(ReplacedRank, GoesOnAfterSeveralKills) {
  const auto calm = run_of(GetParam());
  ReplacedRanks nobody(calm->ranks, {});
  train_with(nobody, *calm);
  const History whole = calm->history();
  for (uint64_t trial = 0; trial < (any_sanitizer ? 3 : 12); ++trial) {
    const RandomStream stream(trial, "kills");
    std::vector<Kill> kills;
    for (uint64_t i = 0; i < 4; ++i) {
      const auto rank = static_cast<int>(stream.word(i, 0) % static_cast<uint64_t>(calm->ranks));
      kills.push_back(
          {.rank = rank,
           .call = static_cast<int64_t>(stream.word(i, 1) % static_cast<uint64_t>(nobody.num_calls(rank)))});
    }
    SCOPED_TRACE(fmt::format("trial {}", trial));
    const auto run = run_of(GetParam());
    ReplacedRanks launcher(run->ranks, kills);
    train_with(launcher, *run);
    EXPECT_GE(launcher.killed(), 1);
    EXPECT_EQ(run->history(), whole);
  }
}

// A rank that has just come has its predecessor's slots, also in the world after one that broke before it began.
TEST_P(ReplacedRank, GoesOnAfterAWorldThatNeverBegan) {
  const auto calm = run_of(GetParam());
  ReplacedRanks nobody(calm->ranks, {});
  train_with(nobody, *calm);
  const History whole = calm->history();
  const int last = calm->ranks - 1;
  const int64_t at = 2 * nobody.num_calls(last) / 3;
  for (int64_t call = 0; call < 16; call += any_sanitizer ? 5 : 1) {
    SCOPED_TRACE(fmt::format("call {} of rank 0 in the second world", call));
    const auto run = run_of(GetParam());
    ReplacedRanks launcher(run->ranks,
                           {{.rank = last, .call = at}, {.rank = 0, .call = call, .generation = 1}});
    train_with(launcher, *run);
    EXPECT_EQ(launcher.killed(), 2);
    EXPECT_EQ(run->history(), whole);
    for (const StepMetrics& m : run->metrics())
      EXPECT_TRUE(m.generation == 0 || m.step >= launcher.done_before())
          << "step " << m.step << " was done again, though step " << launcher.done_before() << " was done";
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace athanor::tests::replaced_ranks_test
