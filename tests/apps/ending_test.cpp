// How a run ends, and what does not end it: signals, readers that go away, disks that fill up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "apps/small_run.h"
#include "support/places.h"

namespace athanor::tests::ending_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Ending : public ::testing::Test {
 protected:
  void SetUp() override { make_small_run(place); }
  std::vector<std::string> arguments(int ranks, const std::vector<std::string>& sets = kEndless) const {
    return ranks == 1 ? train_arguments("t", sets) : launch_arguments(ranks, "t", sets);
  }
  bool reaches(Program& run, int64_t step) const {
    return run.wait_until([&] { return num_lines(place, "t") >= step; });
  }
  void expect_saved(const Outcome& outcome) const {
    EXPECT_EQ(outcome.exit_code, 75) << outcome.all();
    const int64_t last = num_lines(place, "t");
    EXPECT_TRUE(place.exists(checkpoint_of("t", last))) << last;
    EXPECT_EQ(report(place, "t")["status"], "interrupted");
    EXPECT_EQ(report(place, "t")["steps"], last);
  }
  std::string log() const { return place.read(run_file("t", "logs/rank0.log")); }
  Workplace place;
};

TEST_F(Ending, EverySignalThatAsksSavesAndEnds) {
  const std::pair<int, const char*> signals[] = {
      {SIGINT, "interrupt: saving after this step; press Ctrl-C again"},
      {SIGTERM, "SIGTERM: saving after this step"},
      {SIGHUP, "SIGHUP: saving after this step"},
      {SIGUSR1, "SIGUSR1: saving after this step"},
      {SIGUSR2, "SIGUSR2: saving after this step"},
      {SIGXCPU, "SIGXCPU: saving after this step"}};
  for (const int ranks : {1, 2})
    for (const auto& [number, answer] : signals) {
      if (ranks == 2 && number != SIGHUP && number != SIGUSR2)
        continue;  // the launcher's own test has them all
      Program run = place.start(arguments(ranks));
      ASSERT_TRUE(reaches(run, num_lines(place, "t") + 3));
      run.signal(number);
      const Outcome outcome = run.finish();
      expect_saved(outcome);
      const std::string step = std::to_string(num_lines(place, "t"));
      EXPECT_THAT(outcome.out, AllOf(HasSubstr(answer),
                                     HasSubstr("t · interrupted at step " + step + " of 1000000, saved"),
                                     HasSubstr("the same command goes on from step " + step)));
      EXPECT_TRUE(nothing_left_running());
    }
}

TEST_F(Ending, WhatIsIgnoredAtTheStartStaysIgnored) {
  for (const int ranks : {1, 2})
    for (const int number : {SIGHUP, SIGUSR2}) {
      Program run = place.start(arguments(ranks), {.ignored_signals = {number}});
      const int64_t before = num_lines(place, "t");
      ASSERT_TRUE(reaches(run, before + 3));
      run.signal(number);
      run.signal(number);
      ASSERT_TRUE(reaches(run, num_lines(place, "t") + 5));
      run.signal(SIGTERM);
      expect_saved(run.finish());
    }
}

// A pipe without a reader, a terminal that hung up; rank 0's output under launch, too.
TEST_F(Ending, ALostConsoleIsASilentOne) {
  for (const int ranks : {1, 2})
    for (const bool terminal : {false, true}) {
      place.remove("runs/t");
      Program run = place.start(arguments(ranks), {.terminal = terminal});
      ASSERT_TRUE(reaches(run, 3));
      run.close_output();
      ASSERT_TRUE(reaches(run, num_lines(place, "t") + 20)) << run.finish().all();
      run.signal(SIGINT);
      expect_saved(run.finish());
      EXPECT_THAT(log(),
                  AllOf(HasSubstr("step 0000020/1000000 | loss "), HasSubstr("t · interrupted at step")));
    }
}

TEST_F(Ending, AFinishedRunWithoutAReaderSucceeds) {
  const auto whole = [&] {
    train(place, "whole");
    return history(place, "whole");
  }();
  for (const auto& words :
       {arguments(1, {}), arguments(2, {}), arguments(1, {}) + std::vector<std::string>{"--json"}}) {
    place.remove("runs/t");
    Program run = place.start(words);
    run.close_output();
    EXPECT_EQ(run.finish().exit_code, 0);
    EXPECT_EQ(history(place, "t"), whole);
    EXPECT_EQ(report(place, "t")["status"], "finished");
  }
}

// metrics.jsonl, events and the log reach the limit of a file's size; the checkpoint stays below it.
TEST_F(Ending, FilesThatMayNotGrowAreSaidOnceAndCounted) {
  train(place, "t", {"train.steps=4"});
  ProgramOptions options;
  options.max_file_bytes = 0;
  for (const auto& [name, bytes] : place.files(checkpoint_of("t", 4)))
    options.max_file_bytes = std::max<uint64_t>(options.max_file_bytes, bytes.size() + 20'000);
  place.remove("runs/t");
  const Outcome outcome = place.run(
      train_arguments("t", {"train.steps=1000", "train.eval_every=0", "checkpoint.every_steps=0"}), options);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  const size_t first = outcome.out.find("warning: metrics.jsonl: cannot write");
  EXPECT_NE(first, std::string::npos) << outcome.out;
  EXPECT_EQ(first, outcome.out.rfind("warning: metrics.jsonl: cannot write"));
  const int64_t lines = std::ssize(metrics(place, "t"));  // whole, all of them
  EXPECT_LT(lines, 1000);
  EXPECT_EQ(report(place, "t")["dropped"]["lines of metrics.jsonl"], 1000 - lines);
  EXPECT_THAT(outcome.out, HasSubstr(" lines of metrics.jsonl"));
  EXPECT_TRUE(place.exists(checkpoint_of("t", 1000)));
}

// A disk that is full for a while, wherever that begins, costs lines and a checkpoint, never the run.
TEST_F(Ending, ADiskThatIsFullForAWhile) {
  const std::vector<std::string> sets = {"train.steps=24"};  // long enough that the last save has room
  train(place, "whole", sets);
  const std::string digest_of_whole = history(place, "whole").digest;
  for (const int ranks : {1, 2})
    for (const int from : {40, 60, 90}) {
      place.remove("runs/t");
      ProgramOptions options;
      options.environment = {"LD_PRELOAD=" + built("tests/apps_faults.so"),
                             "ATHANOR_FAULT=full:" + std::to_string(from) + "-" + std::to_string(from + 12)};
      const Outcome outcome = place.run(arguments(ranks, sets), options);
      ASSERT_EQ(outcome.exit_code, 0) << from << outcome.all();
      EXPECT_THAT(outcome.out, HasSubstr("warning: ")) << from;
      EXPECT_EQ(digest(place, checkpoint_of("t", 24)), digest_of_whole) << from;
      EXPECT_EQ(metrics(place, "t").back().at("step"), 24);
    }
}

TEST_F(Ending, AskedWhileTokenizingItLeavesNoHalfFile) {
  std::string text;
  for (uint64_t part = 0; part < 40; ++part) text += invented_text(7 + part, 60'000);
  place.write("en.txt", text);
  for (const int ranks : {1, 2}) {
    place.remove("runs");
    place.remove("go");
    Program run = place.start(arguments(ranks), held_at("/.cache/", place.path("go")));
    // The lock is there before the first of it is tokenized.
    ASSERT_TRUE(
        run.wait_until([&] { return place.exists("runs/.cache") && !place.list("runs/.cache").empty(); }));
    run.signal(SIGTERM);
    const auto taken = [&] { return run.output_so_far().find("SIGTERM: saving") != std::string::npos; };
    ASSERT_TRUE(run.wait_until(taken));
    place.write("go", "");
    const Outcome outcome = run.finish();
    EXPECT_EQ(outcome.exit_code, 75) << outcome.all();
    EXPECT_THAT(outcome.out, HasSubstr("interrupted before the first step"));
    for (const std::string& name : place.list("runs/.cache")) EXPECT_THAT(name, ::testing::EndsWith(".lock"));
  }
}

TEST_F(Ending, AnInterruptedDatasetBuildLeavesWhatWasThere) {
  const std::vector<std::string> build = {"dataset",  "build",  "--tokenizer", "tokenizer.json",
                                          "--output", "out/en", "en.txt"};
  place.output_of(build);
  const auto before = place.files("out");
  std::string text;
  for (uint64_t part = 0; part < 40; ++part) text += invented_text(7 + part, 60'000);
  place.write("en.txt", text);
  Program run = place.start(build, held_at("/out/", place.path("go")));
  ASSERT_TRUE(run.wait_until([&] { return place.list("out").size() > before.size(); }));
  run.signal(SIGINT);
  ASSERT_TRUE(run.wait_until([&] { return !is_pending(run.pid(), SIGINT); }));
  place.write("go", "");
  const Outcome outcome = run.finish();
  EXPECT_EQ(outcome.exit_code, 128 + SIGINT) << outcome.all();
  EXPECT_THAT(outcome.err, HasSubstr("interrupted: out/en is as it was"));
  EXPECT_EQ(place.files("out"), before);
}

TEST_F(Ending, TheLastWordsOfAFinishedRun) {
  for (const int ranks : {1, 2}) {
    place.remove("runs/t");
    const Outcome outcome = place.run(arguments(ranks, {}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    for (const char* words : {"t · finished: step 12 of 12", "training loss", "validation loss",
                              "runs/t/loss.svg", "athanor evaluate runs/t", "athanor generate runs/t"}) {
      EXPECT_THAT(outcome.out, HasSubstr(words));
      EXPECT_THAT(log(), HasSubstr(words));
    }
    EXPECT_EQ(outcome.out.find("finished:"), outcome.out.rfind("finished:"));  // once, however many ranks
  }
}

}  // namespace
}  // namespace athanor::tests::ending_test
