// What a run leaves for people, on a disk that fills up.
#include "athanor/run/recorder.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "observe/fault_env.h"
#include "support/temporary_folder.h"

namespace athanor::tests::recorder_test {
namespace {

using ::testing::HasSubstr;

struct Shown {
  std::string text;
  Console console{{.write = [this](std::string_view more) { text += more; }}};
  int64_t times(const std::string& what) const {
    int64_t count = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++count;
    return count;
  }
};

StepMetrics at_step(int64_t step) {
  return {.step = step, .tokens = 10 * step, .loss = 5.0 - 0.01 * static_cast<double>(step)};
}

TEST(Recorder, AFullDiskEndsNothing) {
  const TemporaryFolder folder;
  FullDiskEnv disk(1 << 20);
  Shown shown;
  TrainReport report{.run_folder = folder.path("run")};
  {
    Recorder recorder(disk, folder.path("run"), 0, &shown.console, {"train"});
    recorder.open(0, "[model]\n");
    recorder.sync();
    for (int64_t step = 1; step <= 5; ++step) recorder.step(at_step(step), 20);
    disk.set_room(0);
    for (int64_t step = 6; step <= 15; ++step) recorder.step(at_step(step), 20);
    recorder.report(report);
    recorder.sync();
    disk.set_room(1 << 20);
    for (int64_t step = 16; step <= 20; ++step) recorder.step(at_step(step), 20);
    report.dropped = recorder.dropped();
    recorder.finish(report, {.name = "run", .status = "finished", .step = 20, .total_steps = 20});
  }
  std::vector<int64_t> steps;
  for (const StepMetrics& m : read_metrics(system_env(), folder.path("run/metrics.jsonl")))
    steps.push_back(m.step);
  EXPECT_THAT(steps, ::testing::ElementsAre(1, 2, 3, 4, 5, 16, 17, 18, 19, 20));
  EXPECT_EQ(shown.times("warning: metrics.jsonl: disk is full; the run goes on and tries again"), 1);
  EXPECT_EQ(shown.times("warning: metrics.jsonl: can be written again, 10 dropped"), 1);
  EXPECT_EQ(shown.times("warning: TensorBoard events: disk is full"), 1);
  EXPECT_THAT(shown.text, HasSubstr("10 lines of metrics.jsonl, 10 steps of TensorBoard events"));
  EXPECT_THAT(shown.text, HasSubstr("run · finished: step 20 of 20"));
  const auto json = nlohmann::json::parse(system_env().read_text(folder.path("run/report.json")));
  EXPECT_EQ(json["dropped"]["lines of metrics.jsonl"], 10);
  EXPECT_TRUE(system_env().exists(folder.path("run/loss.svg")));
  // The log says which lines it lacks, and has all others.
  const std::string log = system_env().read_text(folder.path("run/logs/rank0.log"));
  for (const int64_t step : {1, 5, 16, 20})
    EXPECT_THAT(log, HasSubstr(" info    step " + std::string(step < 10 ? "0" : "") + std::to_string(step) +
                               "/20 | loss "));
  EXPECT_THAT(log, HasSubstr("lines before this one could not be written"));
}

// Within one process: what it had recorded of later steps is set aside, and each step stands once.
TEST(Recorder, ARunThatGoesBackRecordsEachStepOnce) {
  const TemporaryFolder folder;
  Shown shown;
  Recorder recorder(system_env(), folder.path("run"), 0, &shown.console, {"train"});
  recorder.open(0, "[model]\n");
  const auto record = [&](int64_t first, int64_t last, int64_t generation) {
    for (int64_t step = first; step <= last; ++step) {
      StepMetrics metrics = at_step(step);
      metrics.generation = generation;
      recorder.step(metrics, 9);
    }
  };
  const auto found = [&](const char* name) {
    std::vector<std::pair<int64_t, int64_t>> lines;
    for (const StepMetrics& m : read_metrics(system_env(), folder.path(name)))
      lines.emplace_back(m.step, m.generation);
    return lines;
  };
  using Lines = std::vector<std::pair<int64_t, int64_t>>;
  record(1, 5, 0);
  recorder.cut_back(5);
  EXPECT_FALSE(system_env().exists(folder.path("run/metrics.abandoned.jsonl")));
  recorder.cut_back(3);
  record(4, 6, 1);
  recorder.cut_back(5);
  record(6, 7, 2);
  EXPECT_EQ(found("run/metrics.jsonl"), (Lines{{1, 0}, {2, 0}, {3, 0}, {4, 1}, {5, 1}, {6, 2}, {7, 2}}));
  EXPECT_EQ(found("run/metrics.abandoned.jsonl"), (Lines{{4, 0}, {5, 0}, {6, 1}}));
  EXPECT_THAT(shown.text,
              HasSubstr("the run goes on after step 3: the metrics of steps 4 to 5 are set aside"));
  EXPECT_THAT(shown.text, HasSubstr("the run goes on after step 5: the metrics of step 6 are set aside"));
}

// The disk is full from the start: files are opened later.
TEST(Recorder, FilesThatCannotBeOpenedAreOpenedLater) {
  const TemporaryFolder folder;
  FullDiskEnv disk(0);
  Shown shown;
  Recorder recorder(disk, folder.path("run"), 0, &shown.console, {"train"});
  recorder.open(0, "[model]\n");
  for (int64_t step = 1; step <= 70; ++step) recorder.step(at_step(step), 200);
  recorder.sync();
  disk.set_room(1 << 20);
  for (int64_t step = 71; step <= 200; ++step) recorder.step(at_step(step), 200);
  recorder.finish({.run_folder = folder.path("run")},
                  {.name = "run", .status = "finished", .step = 200, .total_steps = 200});
  EXPECT_TRUE(system_env().exists(folder.path("run/config.resolved.toml")));
  EXPECT_EQ(read_metrics(system_env(), folder.path("run/metrics.jsonl")).back().step, 200);
  int event_files = 0;
  for (const std::string& name : system_env().list(folder.path("run")))
    event_files += name.starts_with("events") ? 1 : 0;
  EXPECT_EQ(event_files, 1);
}

TEST(Recorder, TheLogHasEveryStepWhateverIsShown) {
  const TemporaryFolder folder;
  Recorder recorder(system_env(), folder.path("run"), 0, nullptr, {"train"});
  recorder.open(0, "");
  for (int64_t step = 1; step <= 12; ++step) {
    StepMetrics metrics = at_step(step);
    if (step == 6) metrics.valid_loss = 4.5;
    recorder.step(metrics, 12);
  }
  const std::string log = system_env().read_text(folder.path("run/logs/rank0.log"));
  for (int64_t step = 1; step <= 12; ++step)
    EXPECT_THAT(log,
                HasSubstr(fmt::format("Z info    step {:02}/12 | loss {:.4f}", step, at_step(step).loss)));
  EXPECT_THAT(log, HasSubstr("info    valid 06/12 | loss 4.5000"));
}

}  // namespace
}  // namespace athanor::tests::recorder_test
