// A training that is killed at some instant leaves its parent a whole slot: of the newest step, or of the one before.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "athanor/base/clock.h"
#include "athanor/comm/shm/forked_ranks.h"
#include "support/tiers.h"
#include "train/held_slots.h"
#include "train/whole_run.h"

namespace athanor::tests::slots_killed_test {
namespace {

constexpr int64_t kSteps = 30;

int64_t lines_of(const std::string& path) {
  if (!std::filesystem::exists(path)) return 0;
  const std::string text = system_env().read_text(path);
  return std::count(text.begin(), text.end(), '\n');
}

struct Mode {
  const char* name;
  int64_t behind;  // steps that a slot may be behind the metrics
};
void PrintTo(const Mode& mode, std::ostream* out) {
  *out << mode.name;
}

class KilledTraining : public testing::TestWithParam<Mode> {};

TEST_P(KilledTraining, LeavesAWholeSlotWithTheBitsOfItsStep) {
  LEAVE_OUT_UNDER(any_sanitizer, "a process of it forks into one that makes threads");
  const Mode mode = GetParam();
  WholeRun calm(1);
  calm.config.train.steps = kSteps;
  calm.config.checkpoint.keep = 0;
  calm.train(system_env());

  WholeRun killed(1);
  killed.config = calm.config;
  killed.config.train.runs = killed.folder.path("runs");
  killed.config.checkpoint.every_steps = 0;
  killed.config.snapshot.mode = mode.name;
  HeldSlots held(1);
  std::mt19937 random(5);
  const int trials = whole_walks() > 0 ? 150 : 20;
  for (int trial = 0; trial < trials; ++trial) {
    std::filesystem::remove_all(killed.config.train.runs);
    const auto first = static_cast<int64_t>(2 + random() % (kSteps - 4));
    {
      comm::shm::ForkedRanks child(1, [&](int) {
        killed.train(system_env(), [&](const Config& config, World& world, TrainIo& io) {
          io.snapshot_fd = held.fds[0];
          return athanor::run::train(config, world, io);
        });
      });
      while (lines_of(killed.file("metrics.jsonl")) < first && kill(child.pid(0), 0) == 0) sched_yield();
      const int64_t instant = now_ns() + static_cast<int64_t>(random() % 2'000'000);
      while (now_ns() < instant) {
      }
      kill(child.pid(0), SIGKILL);
      child.outcome(0);
    }
    held.memory.clear();
    const std::vector<SlotReader> slots = held.read();
    ASSERT_EQ(slots.size(), 1u) << "trial " << trial;
    const int64_t recorded = lines_of(killed.file("metrics.jsonl")), step = slots[0].step();
    EXPECT_GE(step, recorded - mode.behind) << "trial " << trial;
    EXPECT_LE(step, recorded + 1) << "trial " << trial;
    const Checkpoint checkpoint =
        Checkpoint::open(system_env(), calm.file("checkpoints") + "/" + checkpoint_name(step));
    expect_equal(slots, checkpoint);
    EXPECT_EQ(TrainState::from_json(slots[0].state()).to_json(),
              TrainState::from_json(checkpoint.state()).to_json());
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, KilledTraining, testing::Values(Mode{"slots", 0}, Mode{"copy", 1}));

}  // namespace
}  // namespace athanor::tests::slots_killed_test
