// Runs that tune themselves, with clocks that a script moves: which settings they end with, and that they are bitwise one
// process that is given their decisions.
#include <gmock/gmock.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <map>

#include "athanor/base/error.h"
#include "athanor/engine/memory_plan.h"
#include "athanor/observe/event_log.h"
#include "athanor/run/tuning/tuner.h"
#include "train/layout_run.h"
#include "train/replaced_ranks.h"
#include "train/whole_run.h"

namespace athanor::tests::tuning_runs_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kSteps = 200;

// Of micro-batch size 1, 2 and 4, and of more threads: what a reading of the clock takes.
using Pace = std::map<std::string, int64_t>;
const Pace kTwoIsBest = {{"train.micro_batch_size is 1", 100},
                         {"train.micro_batch_size is 2", 10},
                         {"train.micro_batch_size is 4", 1000}};

struct Tuned : WholeRun {
  explicit Tuned(int num_ranks = 2, const char* tune = "apply") : WholeRun(num_ranks) {
    config.train.steps = kSteps;
    config.train.global_batch_size = 8;
    config.train.micro_batch_size = 1;
    config.launch.tune = tune;
    config.parallel.reduce = "tree";
    config.launch.allow_inexact = true;
    config.checkpoint.every_steps = 0;
    config.checkpoint.keep = 0;
  }

  // `pace`: the clock of all ranks from the step on in which rank 0 tells that a setting has that value.
  TrainReport go(
      const Pace& pace, const std::function<void(World&, TrainIo&)>& change = {},
      const TrainRank& how = [](const Config& run, World& world, TrainIo& io) {
        return athanor::run::train(run, world, io);
      }) {
    shown.clear();
    std::atomic<int64_t> tick = 100, tick_of_last = 100;
    return train(system_env(), [&](const Config& run, World& world, TrainIo& io) {
      Console console{{.write = [&](std::string_view more) {
        shown += more;
        for (const auto& [text, of_text] : pace)
          if (more.find(text) != std::string_view::npos) tick = tick_of_last = of_text;
        for (const auto& [text, of_text] : pace_of_last)
          if (more.find(text) != std::string_view::npos) tick_of_last = of_text;
      }}};
      if (world.rank() == 0) io.console = &console;
      std::atomic<int64_t> now = 0;
      const std::atomic<int64_t>& own = world.rank() + 1 == world.size() ? tick_of_last : tick;
      io.clock = [&] { return 1e-3 * static_cast<double>(now += own.load()); };
      io.ranks_of_processors = 1 << 20;  // a share of one thread
      io.ranks_of_host = world.size();
      io.available_memory = [] { return uint64_t{1} << 40; };
      if (change) change(world, io);
      return how(run, world, io);
    });
  }

  std::vector<std::string> decided() const {
    std::vector<std::string> lines;
    for (const Decision& decision :
         parse_decisions(system_env().read_text(file("decisions.jsonl")), "decisions.jsonl")) {
      const auto& set = std::get<SetSetting>(decision.what);
      EXPECT_TRUE(decision.why.starts_with("tuning: ")) << decision.why;
      lines.push_back(fmt::format("{} {} {}->{}", decision.step, set.key, set.was, set.value));
    }
    return lines;
  }
  std::vector<RunEvent> tune_events() const {
    std::vector<RunEvent> events = read_events(system_env().read_text(file(kEventsName)));
    std::erase_if(events, [](const RunEvent& event) { return event.event != "tune"; });
    return events;
  }
  // One process that is given the decisions of this run, with the setting still there.
  History by_its_decisions() const {
    Tuned again(1);
    const std::string runs = again.config.train.runs;
    again.config = config;
    again.config.train.runs = runs;
    again.decisions = parse_decisions(system_env().read_text(file("decisions.jsonl")), "decisions.jsonl");
    again.go({});
    return again.history();
  }
  void forget_checkpoints_after(int64_t step) const {
    for (int64_t later = step + 1; later <= kSteps; ++later)
      std::filesystem::remove_all(join_path(file("checkpoints"), checkpoint_name(later)));
  }

  std::string shown;
  Pace pace_of_last = {};  // of the last rank, where it differs
};

const std::vector<std::string> kEndsWithTwo = {
    "13 train.micro_batch_size 1->2", "25 train.micro_batch_size 2->2", "25 train.micro_batch_size 2->4",
    "37 train.micro_batch_size 4->2"};

TEST(TuningRuns, WhoseBitsAreToBeKeptTryNoOtherMicroBatch) {
  for (const char* tune : {"apply", "propose"}) {
    Tuned run(2, tune);
    run.config.launch.allow_inexact = false;
    run.go(kTwoIsBest);
    EXPECT_FALSE(system_env().exists(run.file("decisions.jsonl")));
    EXPECT_EQ(run.shown.find("train.micro_batch_size="), std::string::npos) << run.shown;
    run.config.parallel.reduce = "fast";
    run.config.train.name = "fast";
    run.go(kTwoIsBest);
    EXPECT_NE(run.shown.find("train.micro_batch_size"), std::string::npos) << "else nothing was shown";
  }
}

class TunedRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Tuning, TunedRanks, testing::Values(1, 2));

TEST_P(TunedRanks, KeepWhatIsFasterAndUndoWhatIsSlower) {
  Tuned run(GetParam());
  const TrainReport report = run.go(kTwoIsBest);
  EXPECT_EQ(report.status, "finished");
  EXPECT_EQ(run.decided(), kEndsWithTwo);
  EXPECT_THAT(system_env().read_text(run.file("config.resolved.toml")),
              HasSubstr("micro_batch_size        = 2 "));
  EXPECT_THAT(run.shown, HasSubstr("step 48: tuning is over: train.micro_batch_size = 2, 1 thread a rank"));
  const std::vector<RunEvent> events = run.tune_events();
  ASSERT_EQ(events.size(), 5u);
  EXPECT_THAT(events[0].cause, HasSubstr("train.micro_batch_size is 2 instead of 1: tuning: a step takes "));
  EXPECT_EQ(events[3].step, 36);
  EXPECT_GT(events[3].recover_seconds, events[1].recover_seconds);  // that was slower, and has cost its steps
  ASSERT_TRUE(report.incidents.has_value());
  EXPECT_EQ(report.incidents->all().size(), 5u);
  // Law 1: another order of sums, and the same function.
  Tuned undisturbed(1, "off");
  undisturbed.go({});
  const std::vector<StepMetrics> expected = undisturbed.metrics(), got = run.metrics();
  ASSERT_EQ(got.size(), static_cast<size_t>(kSteps));
  bool differs = false;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i].loss, expected[i].loss, kTolerance * expected[i].loss) << "step " << i + 1;
    EXPECT_EQ(got[i].tokens, expected[i].tokens);
    if (i < 12) {
      EXPECT_EQ(got[i].loss, expected[i].loss) << "step " << i + 1;
    }
    differs = differs || got[i].grad_norm != expected[i].grad_norm;
  }
  EXPECT_TRUE(differs);  // in its last bits, so that the next line says something
  EXPECT_EQ(run.by_its_decisions(), run.history());
}

TEST(TuningRuns, NothingIsTriedThatIsOff) {
  Tuned run(2, "off");
  EXPECT_THAT(run.go(kTwoIsBest).decisions, IsEmpty());
  EXPECT_THAT(run.tune_events(), IsEmpty());
  Tuned given(2);  // decisions, which are none
  given.decisions = std::vector<Decision>{};
  EXPECT_THAT(given.go(kTwoIsBest).decisions, IsEmpty());
  EXPECT_EQ(given.history(), run.history());
}

TEST(TuningRuns, TheSlowestRankCounts) {
  Tuned run(2);
  run.pace_of_last = {{"train.micro_batch_size is 2", 1000}};
  run.go({{"train.micro_batch_size is 2", 10}});
  EXPECT_THAT(run.decided(), ElementsAre("13 train.micro_batch_size 1->2", "25 train.micro_batch_size 2->1"));
}

TEST(TuningRuns, ThreadsAreTriedAfterThat) {
  Tuned run(2);
  run.config.train.global_batch_size = 2;  // of which each rank has one sequence
  run.config.train.threads = 2;
  Tuned off(2, "off");
  off.config.train.global_batch_size = 2;
  off.go({});
  run.go({{"train.threads is 1", 10}});
  EXPECT_THAT(run.decided(), ElementsAre("13 train.threads 2->1", "25 train.threads 1->1"));
  EXPECT_EQ(run.history(), off.history());  // no result depends on them
  Tuned slower(2);
  slower.config.train.global_batch_size = 2;
  slower.config.train.threads = 2;
  slower.go({{"train.threads is 1", 1000}, {"train.threads is 2", 100}});
  EXPECT_THAT(slower.decided(), ElementsAre("13 train.threads 2->1", "25 train.threads 1->2"));
}

TEST(TuningRuns, NoTryThatCannotPayBegins) {
  Tuned run(2);
  run.config.train.steps = 12 + 132;
  EXPECT_THAT(run.go(kTwoIsBest).decisions, IsEmpty());
}

TEST(TuningRuns, AProposalChangesNothing) {
  Tuned run(2, "propose"), off(2, "off");
  run.config.train.steps = off.config.train.steps = 30;
  EXPECT_THAT(run.go(kTwoIsBest).decisions, IsEmpty());
  off.go({});
  EXPECT_EQ(run.history(), off.history());
  EXPECT_THAT(run.shown, HasSubstr("step 12: tuning proposes, by rule and not by measurement, "
                                   "train.micro_batch_size=4: a pass of a rank has 6 tokens"));
  EXPECT_THAT(run.shown, HasSubstr("--set train.micro_batch_size=4 at the next start"));
  ASSERT_EQ(run.tune_events().size(), 1u);
  Tuned launched(2, "propose");
  launched.config.train.steps = 13;
  launched.go({}, [](World&, TrainIo& io) { io.is_launched = true; });
  EXPECT_THAT(launched.shown, HasSubstr(": athanor ctl " + RunFolder(launched.config).path +
                                        " set train.micro_batch_size=4"));
}

// What two sequences in a pass need beyond one, and not a byte less.
TEST(TuningRuns, WhatDoesNotFitIsNotTried) {
  const auto needed = [](const Config& config, int64_t size, bool leaves_copy) {
    Config with = config;
    with.train.micro_batch_size = size;
    return plan_memory({.config = with, .num_channels = 2, .world_size = 2, .snapshot_after = leaves_copy})
        .usage.peak_total;
  };
  for (const bool is_there : {false, true}) {
    Tuned run(2);
    const uint64_t more = needed(run.config, 2, true) - needed(run.config, 1, false);
    ASSERT_GT(more, 0u);
    run.config.train.steps = 160;
    const TrainReport report = run.go(kTwoIsBest, [&](World&, TrainIo& io) {
      io.available_memory = [=] { return 2 * (is_there ? more : more - 1); };
    });
    EXPECT_EQ(report.decisions.empty(), !is_there);
  }
}

// Before the try, in it, at its end, and after it: what was decided holds, and nothing is tried twice.
TEST(TuningRuns, GoOnAfterAKill) {
  Tuned run(2);
  run.config.checkpoint.every_steps = 15;
  run.go(kTwoIsBest);
  for (const int64_t step : {90, 45, 30, 15}) {
    run.forget_checkpoints_after(step);
    const TrainReport report = run.go(kTwoIsBest);
    EXPECT_EQ(report.status, "finished") << step;
    if (step >= 45) {
      EXPECT_EQ(run.decided(), kEndsWithTwo) << step;
    } else if (step == 30) {  // the try of 4 was open, and nobody knows what a step took before
      EXPECT_THAT(run.decided(),
                  ElementsAre("13 train.micro_batch_size 1->2", "25 train.micro_batch_size 2->2",
                              "25 train.micro_batch_size 2->4", "43 train.micro_batch_size 4->2"));
    } else {
      EXPECT_THAT(run.decided(),
                  ElementsAre("13 train.micro_batch_size 1->2", "28 train.micro_batch_size 2->1"));
    }
    EXPECT_EQ(run.by_its_decisions(), run.history()) << step;
  }
}

// Values and slots stay where they are while the micro-batch changes, and a rank that is replaced knows what the others know.
TEST(TuningRuns, OutliveLostRanks) {
  Tuned whole(2);
  ReplacedRanks undisturbed(2, {});
  const auto under = [](ReplacedRanks& launcher) {
    return [&launcher](const Config& config, World& world, TrainIo& io) {
      return launcher.train(config, world.rank(), io);
    };
  };
  whole.go(kTwoIsBest, {}, under(undisturbed));
  EXPECT_EQ(whole.decided(), kEndsWithTwo);
  EXPECT_EQ(whole.by_its_decisions(), whole.history());
  for (const int64_t part : {4, 9, 14, 17, 22, 40}) {
    Tuned run(2);
    ReplacedRanks launcher(2, {{.rank = 1, .call = undisturbed.num_calls(1) * part / 100}});
    run.go(kTwoIsBest, {}, under(launcher));
    EXPECT_EQ(launcher.killed(), 1);
    const std::vector<std::string> decided = run.decided();
    const std::vector<Decision> decisions =
        parse_decisions(system_env().read_text(run.file("decisions.jsonl")), "decisions.jsonl");
    const Standing standing = standing_of(decisions, 1);
    EXPECT_EQ(standing.num_tries, 2) << part;
    EXPECT_FALSE(standing.open.has_value()) << part;
    EXPECT_EQ(std::get<SetSetting>(decisions.back().what).value, "2") << part;
    EXPECT_EQ(run.by_its_decisions(), run.history()) << part;
  }
}

// A world in which the operator sets something before its first step.
class WithSetting final : public Rendezvous {
 public:
  WithSetting(World& world, std::string setting) : world_(&world), setting_(std::move(setting)) {}
  std::optional<Meeting> next(const std::string& why) override {
    if (world_ == nullptr) return std::nullopt;
    return Meeting{.world = std::exchange(world_, nullptr), .why = why, .set = setting_};
  }

 private:
  World* world_;
  std::string setting_;
};

TEST(SetMicroBatch, IsThatOfAFreshRunAndNeedsItsMemory) {
  const auto asked = [](Tuned& run, const std::string& setting, uint64_t free_bytes) {
    return run.go(
        {}, [&](World&, TrainIo& io) { io.available_memory = [=] { return free_bytes; }; },
        [&](const Config& config, World& world, TrainIo& io) {
          WithSetting rendezvous(world, setting);
          return athanor::run::train(config, rendezvous, io);
        });
  };
  Tuned run(2, "off"), large(2, "off"), refused(2, "off"), plain(2, "off");
  for (Tuned* each : {&run, &large, &refused, &plain}) each->config.train.steps = 4;
  large.config.train.micro_batch_size = 4;
  const TrainReport report = asked(run, "train.micro_batch_size=4", uint64_t{1} << 40);
  EXPECT_EQ(report.decisions,
            (std::vector<Decision>{{1, SetSetting{kMicroBatchKey, "4", "1"}, "the operator wants it"}}));
  large.go({});
  EXPECT_EQ(run.history(), large.history());
  EXPECT_THAT(asked(refused, "train.micro_batch_size=4", 2).decisions, IsEmpty());
  EXPECT_THAT(refused.shown, HasSubstr("step 1: not set: train.micro_batch_size = 4 needs "));
  EXPECT_THAT(refused.shown, HasSubstr("bytes on a rank, and there are "));
  plain.go({});
  EXPECT_EQ(refused.history(), plain.history());
}

TEST(SetMicroBatch, WhatAnotherWorldCannotHaveIsTakenBack) {
  Tuned one(1, "off");
  one.config.train.steps = 4;
  one.config.launch.tune = "off";
  one.decisions = std::vector<Decision>{{3, SetSetting{kMicroBatchKey, "8", "1"}, "why"}};
  one.go({});
  Tuned two(2, "off");
  two.config = one.config;
  two.config.train.steps = 6;
  const TrainReport report = two.go({});
  EXPECT_EQ(report.status, "finished");
  ASSERT_EQ(report.decisions.size(), 2u);
  EXPECT_EQ(report.decisions[1].step, 5);
  EXPECT_EQ(report.decisions[1].what, Decision::What(SetSetting{kMicroBatchKey, "1", "8"}));
  EXPECT_THAT(report.decisions[1].why, HasSubstr("train.micro_batch_size = 8: parallel.dp: got 2 ranks"));
  EXPECT_THAT(two.shown, HasSubstr("taken back"));
}

// No result depends on the number of threads.
TEST(SetThreads, KeepsTheBits) {
  Tuned run(2, "off"), plain(2, "off");
  run.config.train.steps = plain.config.train.steps = 6;
  run.decisions = std::vector<Decision>{{3, SetSetting{kThreadsKey, "3", "1"}, "why"},
                                        {5, SetSetting{kThreadsKey, "2", "3"}, "why"}};
  EXPECT_EQ(run.go({}).decisions, *run.decisions);
  plain.go({});
  EXPECT_EQ(run.history(), plain.history());
}

}  // namespace
}  // namespace athanor::tests::tuning_runs_test
