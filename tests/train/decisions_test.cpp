// Decisions shape a run and are part of its state: whatever the ranks, stops and kills, it is bitwise one process that is
// given the same list, and that trains on the batches that the list leaves.
#include "athanor/engine/decisions.h"

#include <gmock/gmock.h>

#include <atomic>
#include <csignal>
#include <filesystem>

#include "athanor/base/error.h"
#include "athanor/config/print.h"
#include "athanor/data/batch.h"
#include "athanor/run/decisions/decision_log.h"
#include "train/layout_run.h"
#include "train/whole_run.h"

namespace athanor::tests::decisions_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Decisions = std::vector<Decision>;

// The second skip goes past the end of an epoch, which has 16 batches.
const Decisions kSkips = {{3, SkipBatches{2}, "a spike"}, {5, SkipBatches{20}, "another"}};
constexpr int64_t kSteps = 6;

struct Skipping : WholeRun {
  explicit Skipping(int num_ranks = 1, Decisions list = kSkips) : WholeRun(num_ranks) {
    config.train.steps = kSteps;
    config.model.dropout = 0.1;  // its noise goes with the step, not with the batch
    config.parallel.reduce = "tree";
    decisions = std::move(list);
  }
  std::string text(const std::string& name) const {
    return system_env().exists(file(name)) ? system_env().read_text(file(name)) : "";
  }
  Decisions recorded() const { return parse_decisions(text("decisions.jsonl"), "decisions.jsonl"); }
  // A stop on request after `step`.
  void stop_at(int64_t step) const {
    std::atomic<int> stop = 0;
    const TrainReport report = train(system_env(), [&](const Config& run, World& world, TrainIo& io) {
      io.stop = &stop;
      io.clock = [&] {
        if (world.rank() == 0 && system_env().exists(file("metrics.jsonl")) &&
            std::ssize(metrics()) + 1 >= step)
          stop = SIGTERM;
        return 0.0;
      };
      return athanor::run::train(run, world, io);
    });
    EXPECT_EQ(report.status, "interrupted");
    EXPECT_EQ(report.steps, step);
  }
  void forget_checkpoints_after(int64_t step) const {
    for (int64_t later = step + 1; later <= kSteps; ++later)
      std::filesystem::remove_all(join_path(file("checkpoints"), checkpoint_name(later)));
  }
};

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Decisions, ALineIsExactlyThis) {
  const Decision set{7, SetSetting{"optimizer.lr", "0.01", "0.003"}, "why"};
  EXPECT_EQ(decision_line(set),
            R"({"step":7,"decision":"set","key":"optimizer.lr","value":"0.01","was":"0.003","why":"why"})");
  EXPECT_EQ(parse_decisions(decision_line(set), "d"), Decisions{set});
  const Decision skip{5, SkipBatches{2}, "a \"spike\""}, change{9, LayoutChange{"tp 1", "tp 2"}, ""};
  EXPECT_EQ(decision_line(skip), R"({"step":5,"decision":"skip_batches","batches":2,"why":"a \"spike\""})");
  EXPECT_EQ(decision_line(change, 3),
            R"({"step":9,"decision":"layout","from":"tp 1","to":"tp 2","why":"","generation":3})");
  EXPECT_EQ(parse_decisions(decision_line(skip, 0) + "\r\n\n" + decision_line(change) + "\n", "d"),
            (Decisions{skip, change}));
  EXPECT_EQ(parse_decisions(R"({"batches":2,"decision":"skip_batches","step":5})", "d"),
            (Decisions{{5, SkipBatches{2}}}));
  EXPECT_THAT(parse_decisions("", "d"), ElementsAre());
  EXPECT_THAT(skips_of({skip, change}), ElementsAre(BatchSkip{5, 2}));
}

TEST(Decisions, WhatIsNoneIsRefusedByName) {
  const std::string good = R"({"step":5,"decision":"skip_batches","batches":2})";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {R"({"step":5,"decision":"roll_back"})",
       "d:1: decision: got 'roll_back', expected skip_batches, quarantine, set or layout"},
      {R"({"step":5})", "d:1: 'decision' is missing"},
      {R"({"step":5,"decision":"skip_batches"})", "d:1: 'batches' is missing"},
      {R"({"step":5,"decision":"skip_batches","batches":2,"bathces":2})", "d:1: unknown key 'bathces'"},
      {R"({"step":5,"decision":"skip_batches","batches":2,"from":"x"})", "d:1: unknown key 'from'"},
      {R"({"step":0,"decision":"skip_batches","batches":2})", "d:1: step: got 0, expected 1 to"},
      {R"({"step":5,"decision":"skip_batches","batches":-1})", "d:1: batches: got -1, expected 1 to"},
      {R"({"step":5,"decision":"skip_batches","batches":2.5})", "d:1: batches: got 2.5"},
      {R"({"step":5,"decision":"layout","from":1,"to":"x"})", "d:1: from: got 1, expected a string"},
      {"[1]", "d:1: got array, expected an object"},
      {good + "\n" + good, "d:2: got a second skip_batches of step 5"},
      {good + "\n" + R"({"step":4,"decision":"skip_batches","batches":2})",
       "d:2: got step 4 after step 5, expected ascending steps"},
      {good + "\nhello", "d:2"}};
  for (const auto& [text, reason] : wrong)
    EXPECT_THAT(refusal([&text = text] { parse_decisions(text, "d"); }), HasSubstr(reason)) << text;
}

// What a resume with another setting computes, whatever the ranks; and a stop in between changes nothing.
TEST(Decisions, ASettingChangesFromItsStepOn) {
  Skipping changed(1, {});
  changed.config.checkpoint.every_steps = 1;
  const std::string was = setting_text(changed.config, "optimizer.lr");
  changed.config.train.steps = 3;
  changed.config.schedule.decay = "constant";
  changed.train(system_env());
  changed.config.train.steps = kSteps;
  changed.config.optimizer.lr = 0.004;
  const std::string expected = changed.train(system_env()).digest;
  const Decisions set = {{4, SetSetting{"optimizer.lr", "0.004", was}, "why"}};
  for (const int ranks : {1, 2, 3}) {
    Skipping run(ranks, set);
    run.config.schedule.decay = "constant";
    const TrainReport report = run.train(system_env());
    EXPECT_EQ(report.decisions, set);
    EXPECT_EQ(run.recorded(), set);
    EXPECT_EQ(report.digest, expected) << ranks << " ranks";
    Skipping stopped(ranks, set);
    stopped.config.schedule.decay = "constant";
    stopped.stop_at(3);
    EXPECT_EQ(stopped.train(system_env()).digest, report.digest);
    Skipping other(ranks,
                   {{4, SetSetting{"optimizer.lr", "0.004", "0.5"}}});  // the settings say another value
    other.config.schedule.decay = "constant";
    EXPECT_NE(other.train(system_env()).digest, report.digest);
  }
}

TEST(Decisions, ArePartOfTheState) {
  TrainState state;
  EXPECT_THAT(state.to_json(), ::testing::Not(HasSubstr("decisions")));  // as it was before there were any
  EXPECT_TRUE(TrainState::from_json(state.to_json()).decisions.empty());
  state.decisions = kSkips;
  state.decisions.push_back({9, LayoutChange{"tp 1", "tp 2"}, "why"});
  EXPECT_EQ(TrainState::from_json(state.to_json()).decisions, state.decisions);
}

class DecisionRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Decisions, DecisionRanks, testing::Values(1, 2, 3));

// The oracle shifts the steps of a sampler that knows no skips.
TEST_P(DecisionRanks, TrainOnWhatFollowsTheSkippedBatches) {
  Skipping run(GetParam());
  const TrainReport report = run.train(system_env());
  EXPECT_EQ(report.status, "finished");
  EXPECT_EQ(report.decisions, kSkips);
  EXPECT_EQ(run.recorded(), kSkips);
  const Dataset data = open_dataset(run.config, system_env());
  const BatchReader reader(data.channels, make_sampler(data.channels, run.config.train.seed, 5),
                           run.config.train.micro_batch_size);
  const VerifyRun one = run_layout(
      run.config, 2,
      [&](int64_t step, int64_t micro_batch, Batch& batch) {
        reader.read(step + (step >= 3 ? 2 : 0) + (step >= 5 ? 20 : 0), micro_batch, batch);
        batch.step = step;
      },
      kSteps);
  const std::vector<StepMetrics> metrics = run.metrics();
  ASSERT_EQ(metrics.size(), one.losses.size());
  for (size_t i = 0; i < metrics.size(); ++i) {
    EXPECT_EQ(metrics[i].loss, one.losses[i]) << "step " << i + 1;
    EXPECT_EQ(metrics[i].grad_norm, one.grad_norms[i]) << "step " << i + 1;
    EXPECT_EQ(metrics[i].tokens, static_cast<int64_t>(i + 1) * 5 * 6) << "step " << i + 1;
  }
  Skipping alone;
  alone.train(system_env());
  EXPECT_EQ(run.history(), alone.history());
  Skipping without(GetParam(), {});
  without.train(system_env());
  const History other = without.history();
  EXPECT_EQ(other.steps[1], run.history().steps[1]);
  EXPECT_NE(other.steps[2], run.history().steps[2]);
}

// Before, at and after each skip; what is past needs no list.
TEST_P(DecisionRanks, GoOnAfterAStop) {
  Skipping run(GetParam());
  run.train(system_env());
  const History whole = run.history();
  for (int64_t step = 1; step < kSteps; ++step) {
    Skipping again(GetParam());
    again.stop_at(step);
    if (step >= 5) again.decisions.reset();
    EXPECT_EQ(again.train(system_env()).status, "finished");
    EXPECT_EQ(again.history(), whole) << step;
    EXPECT_EQ(again.recorded(), kSkips) << step;
  }
}

TEST(DecisionRuns, WhatIsToComeNeedsTheListAgain) {
  Skipping run;
  run.stop_at(2);
  run.decisions.reset();
  run.train(system_env());
  EXPECT_THAT(run.recorded(), ElementsAre());
  Skipping without(1, {});
  without.train(system_env());
  EXPECT_EQ(run.history(), without.history());
}

// Killed after step 5, whose newest checkpoint is of step 4: what step 5 took is set aside with the generation that took it.
TEST(DecisionRuns, WhatAbandonedStepsTookIsSetAside) {
  Skipping whole(2);
  whole.train(system_env());
  Skipping run(2);
  run.stop_at(5);
  run.forget_checkpoints_after(4);
  const std::string before = run.text("decisions.jsonl");
  EXPECT_THAT(before, HasSubstr(R"("why":"another","generation":0})"));
  run.decisions = Decisions{kSkips[0], {6, SkipBatches{1}}};  // the future may change
  run.train(system_env());
  EXPECT_EQ(run.recorded(), *run.decisions);
  EXPECT_EQ(run.text("decisions.abandoned.jsonl"), before.substr(before.find('\n') + 1));
  run.forget_checkpoints_after(4);
  run.decisions = kSkips;
  run.train(system_env());
  EXPECT_EQ(run.history(), whole.history());
  EXPECT_EQ(run.text("decisions.jsonl"),
            decision_line(kSkips[0], 0) + "\n" + decision_line(kSkips[1], 2) + "\n");
  EXPECT_THAT(run.text("decisions.abandoned.jsonl"),
              HasSubstr(R"({"step":6,"decision":"skip_batches","batches":1,"why":"","generation":1})"));
  std::vector<int64_t> generations;
  for (const StepMetrics& m : run.metrics()) generations.push_back(m.generation);
  EXPECT_THAT(generations, ElementsAre(0, 0, 0, 0, 2, 2));
  std::vector<std::pair<int64_t, int64_t>> abandoned;
  for (const StepMetrics& m : read_metrics(system_env(), run.file("metrics.abandoned.jsonl")))
    abandoned.emplace_back(m.step, m.generation);
  EXPECT_EQ(abandoned, (std::vector<std::pair<int64_t, int64_t>>{{5, 0}, {5, 1}, {6, 1}}));
}

// The file is not what counts: without it the run goes on with those of the checkpoint, and writes it again.
TEST(DecisionRuns, AFileThatIsLostIsWrittenAgain) {
  Skipping run;
  run.train(system_env());
  const History whole = run.history();
  for (const std::string text : {"", "hello\n", "{\"step\":3"}) {
    run.forget_checkpoints_after(4);
    system_env().write_atomically(run.file("decisions.jsonl"), text);
    run.train(system_env());
    EXPECT_EQ(run.history(), whole);
    EXPECT_EQ(run.recorded(), kSkips);
  }
  EXPECT_THAT(run.text("decisions.abandoned.jsonl"), HasSubstr("hello\n"));
}

TEST(DecisionRuns, ARerunWithTheFileIsTheSameRun) {
  Skipping run(3);
  run.train(system_env());
  Skipping again(1, run.recorded());
  again.config.train.name = "again";
  again.config.train.runs = run.config.train.runs;
  again.train(system_env());
  EXPECT_EQ(again.history(), run.history());
}

TEST(DecisionRuns, APastThatIsNotTheRunsIsRefusedAndNothingIsTouched) {
  Skipping run(2);
  run.stop_at(4);
  const auto files = [&] {
    std::vector<std::string> texts;
    for (const char* name : {"decisions.jsonl", "metrics.jsonl", "report.json", "config.resolved.toml"})
      texts.push_back(run.text(name));
    for (const std::string& name : system_env().list(run.file("checkpoints"))) texts.push_back(name);
    for (const std::string& name : system_env().list(run.file(""))) texts.push_back(name);
    return texts;
  };
  const std::vector<std::string> before = files();
  const auto complaint = [&](Decisions list) {
    run.decisions = std::move(list);
    std::string text = refusal([&] { run.train(system_env()); });
    EXPECT_EQ(files(), before) << text;
    return text;
  };
  EXPECT_EQ(
      complaint({{3, SkipBatches{1}}}),
      "--decisions: skip_batches: got 1 batches at step 3, expected 2 batches at step 3 as in the run, which "
      "has done 4 steps");
  EXPECT_THAT(complaint({}), HasSubstr("got none, expected 2 batches at step 3"));
  EXPECT_THAT(complaint({{2, SkipBatches{1}}, {3, SkipBatches{2}}}),
              HasSubstr("got 1 batches at step 2, expected 2"));
  EXPECT_THAT(complaint({{3, SkipBatches{2}}, {4, SkipBatches{1}}}),
              HasSubstr("got 1 batches at step 4, expected none"));
  // Why, and notes of layouts, are for people.
  run.decisions = Decisions{{2, LayoutChange{"x", "y"}}, {3, SkipBatches{2}, "otherwise"}, kSkips[1]};
  EXPECT_EQ(run.train(system_env()).status, "finished");
  EXPECT_EQ(run.recorded(), kSkips);
}

TEST(DecisionRuns, AllRanksFollowTheSame) {
  const Skipping run(2);
  EXPECT_THAT(refusal([&] {
                run.train(system_env(), [&](const Config& config, World& world, TrainIo& io) {
                  if (world.rank() == 1) io.decisions = Decisions{kSkips[0]};
                  return athanor::run::train(config, world, io);
                });
              }),
              HasSubstr("--decisions: got "));
  EXPECT_FALSE(system_env().exists(run.file("")));
}

TEST(DecisionRuns, ASkipIsSaidOnce) {
  Skipping run;
  std::string shown;
  const auto train = [&](const Config& config, World& world, TrainIo& io) {
    Console console{{.write = [&](std::string_view more) { shown += more; }}};
    io.console = &console;
    return athanor::run::train(config, world, io);
  };
  run.train(system_env(), train);
  run.config.train.steps = 8;
  run.train(system_env(), train);
  for (const char* line :
       {"step 3: skips 2 global batches: a spike", "step 5: skips 20 global batches: another"}) {
    const size_t at = shown.find(line);
    ASSERT_NE(at, std::string::npos) << line;
    EXPECT_EQ(shown.find(line, at + 1), std::string::npos) << line;
  }
  const auto report = TrainReport::parse(run.text("report.json"));
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->decisions, kSkips);
}

// Positions are those of the phase: a skip shifts what is left of it and nothing else.
TEST(DecisionRuns, ASkipEndsWithItsPhase) {
  const auto phased = [](Decisions list) {
    Skipping run(2, std::move(list));
    run.config.phases = {
        {.name = "first", .steps = 2}, {.name = "second", .steps = 2}, {.name = "third", .steps = 2}};
    run.config = parse_config(print_config(run.config), "run.toml");
    run.config.optimizer.lr = 1e-30;  // so that a loss depends on nothing but its batch
    run.config.model.dropout = 0;
    run.train(system_env());
    std::vector<double> losses;
    for (const StepMetrics& m : run.metrics()) losses.push_back(m.loss);
    return losses;
  };
  const std::vector<double> plain = phased({}), skipping = phased({{4, SkipBatches{1}}});
  ASSERT_EQ(plain.size(), 6u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(skipping[i] == plain[i], i != 3) << "step " << i + 1;
}

// A micro-batch size or an axis that adds in another order is noted where it changes within a phase, and nowhere else.
TEST(DecisionRuns, AnotherLayoutIsNoted) {
  Skipping run(1, {kSkips[0]});
  run.config.parallel.reduce = "fast";
  run.stop_at(2);
  run.config.train.micro_batch_size = 5;
  run.stop_at(4);
  const Decision note{
      3, LayoutChange{"tp 1, cp 1, ep 1, micro_batch_size 2", "tp 1, cp 1, ep 1, micro_batch_size 5"},
      "the run was resumed with another layout"};
  EXPECT_EQ(run.recorded(), (Decisions{note, kSkips[0]}));
  run.train(system_env());
  EXPECT_EQ(run.recorded(), (Decisions{note, kSkips[0]}));
  // The list of another run notes what that one did.
  Skipping again(1, run.recorded());
  again.train(system_env());
  EXPECT_EQ(again.recorded(), Decisions{kSkips[0]});
  EXPECT_EQ(again.history().steps[1], run.history().steps[1]);
}

}  // namespace
}  // namespace athanor::tests::decisions_test
