// No history is lost and nothing that went wrong counts as success, as a user sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "apps/small_run.h"

namespace athanor::tests::history_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class RunsHistory : public ::testing::Test {
 protected:
  void SetUp() override { make_small_run(place); }
  size_t event_files(const std::string& name) const {
    size_t count = 0;
    for (const std::string& file : place.list("runs/" + name)) count += file.starts_with("events.out.");
    return count;
  }
  Workplace place;
};

struct Divergence {
  const char* name;
  std::vector<std::string> sets;
  int ranks;
  std::vector<std::string> said;
};

TEST_F(RunsHistory, WhatIsNotFiniteEndsTheRunAndIsNeverSaved) {
  const std::vector<std::string> flat = {"schedule.decay=constant", "schedule.warmup_steps=0"};
  const std::vector<std::string> f16 = {"precision.compute=f16",    "optimizer.lr=20",
                                        "checkpoint.every_steps=1", "checkpoint.keep=1",
                                        "train.steps=60",           "schedule.warmup_steps=40"};
  for (const Divergence& c : std::vector<Divergence>{
           {"gradient",
            {"optimizer.lr=1e30"},
            1,
            {"step 2: the gradient of 'embed.weight'", "no finite checkpoint"}},
           {"gradient_tp",
            {"optimizer.lr=1e30", "parallel.tp=2"},
            2,
            {"step 2: the gradient of 'embed.weight'", "no finite checkpoint"}},
           {"weights",
            {"optimizer.lr=1e39", "checkpoint.every_steps=1"},
            1,
            {"step 1: the tensor 'model.embed.weight' is not finite", "no finite checkpoint"}},
           {"held_out_loss", f16, 1, {"step 4: the validation loss of channel 'en' is not finite"}},
           {"loss_f16",
            f16 + std::vector<std::string>{"train.eval_every=0"},
            1,
            {"the loss is not finite", "the last finite checkpoint is runs/loss_f16/checkpoints/step_"}},
       }) {
    const auto sets = flat + c.sets;
    const Outcome outcome =
        place.run(c.ranks == 1 ? train_arguments(c.name, sets) : launch_arguments(c.ranks, c.name, sets));
    EXPECT_EQ(outcome.exit_code, 1) << c.name << outcome.all();
    const Json found = report(place, c.name);
    EXPECT_EQ(found["status"], "failed") << c.name;
    for (const std::string& piece : c.said) {
      EXPECT_THAT(outcome.err, HasSubstr(piece)) << c.name;
      EXPECT_THAT(found["reason"].get<std::string>(), HasSubstr(piece)) << c.name;
    }
    EXPECT_THAT(outcome.err, HasSubstr("hint: lower optimizer.lr")) << c.name;
    if (!place.exists(run_file(c.name, "checkpoints"))) continue;
    for (const std::string& name : place.list(run_file(c.name, "checkpoints")))
      EXPECT_EQ(place.run({"checkpoint", "verify", run_file(c.name, "checkpoints/" + name)}).exit_code, 0);
  }
  // From the one that the message names, with what lost it still within reach.
  const size_t kept = place.list(run_file("loss_f16", "checkpoints")).size();
  EXPECT_GE(kept, 1u);
  EXPECT_LE(kept, 2u);
}

TEST_F(RunsHistory, ARunWhoseCheckpointsAreLostIsRefused) {
  train(place, "whole");
  const auto refuse = [&](const char* how, const std::vector<std::string>& pieces) {
    const std::string metrics_before = place.read(run_file("t", "metrics.jsonl"));
    const Outcome outcome = place.run(train_arguments("t", {"train.steps=3"}));
    expect_refused(outcome, 1, pieces);
    EXPECT_THAT(outcome.err, HasSubstr("start anew")) << how;
    EXPECT_EQ(place.read(run_file("t", "metrics.jsonl")), metrics_before) << how;
    EXPECT_EQ(report(place, "t"), report(place, "whole")) << how;
  };
  const auto afresh = [&] {
    place.remove("runs/t");
    place.copy("runs/whole", "runs/t");
  };
  afresh();
  place.remove("runs/t/checkpoints");
  refuse("no folder", {"runs/t", "has saved checkpoints before"});
  afresh();
  for (const std::string& name : place.list("runs/t/checkpoints")) place.remove("runs/t/checkpoints/" + name);
  refuse("an empty folder", {"runs/t", "has saved checkpoints before"});
  afresh();
  place.remove("runs/t/checkpoints");
  std::filesystem::create_symlink("/nowhere/at/all", place.path("runs/t/checkpoints"));
  refuse("a disk that is not there", {"runs/t", "has saved checkpoints before"});
  afresh();
  for (const std::string& name : place.list("runs/t/checkpoints"))
    place.write("runs/t/checkpoints/" + name + "/manifest.json", "");
  refuse("all damaged", {"runs/t", "step_00000012", "none can be read"});
  place.remove("runs/t/committed.json");
  refuse("all damaged and no record", {"runs/t", "none can be read"});
}

// Killed before its first checkpoint: begins again, what it did is set aside.
TEST_F(RunsHistory, ARunKilledBeforeItsFirstCheckpointBeginsAgain) {
  Program run =
      place.start(train_arguments("t", kEndless + std::vector<std::string>{"checkpoint.every_steps=0"}));
  ASSERT_TRUE(run.wait_until([&] { return num_lines(place, "t") >= 3; }));
  run.signal(SIGKILL);
  run.finish();
  const std::string before = place.read(run_file("t", "metrics.jsonl"));
  EXPECT_EQ(report(place, "t")["status"], "running");
  EXPECT_THAT(place.read(run_file("t", "logs/rank0.log")), Not(HasSubstr("saved")));
  const Outcome outcome = train(place, "t");
  EXPECT_THAT(outcome.out, HasSubstr("died at step"));
  EXPECT_THAT(outcome.out, HasSubstr("the run begins at step 1: the metrics of steps 1 to"));
  EXPECT_EQ(place.read(run_file("t", "metrics.abandoned.jsonl")), before.substr(0, before.rfind('\n') + 1));
  EXPECT_EQ(num_lines(place, "t"), kSteps);
}

TEST_F(RunsHistory, LaterAndDamagedMetricsAreSetAside) {
  train(place, "t");
  place.remove(checkpoint_of("t", 12));
  std::string text = place.read(run_file("t", "metrics.jsonl"));
  const std::string whole = text;
  const size_t third = text.find("{\"step\":3,");
  text[third + 4] = '\0';
  place.write(run_file("t", "metrics.jsonl"), text);
  const Outcome outcome = train(place, "t");
  EXPECT_THAT(outcome.out, HasSubstr("warning: metrics.jsonl: 1 damaged line"));
  EXPECT_EQ(num_lines(place, "t"), kSteps - 1);
  EXPECT_EQ(place.read(run_file("t", "metrics.abandoned.jsonl")), whole.substr(whole.find("{\"step\":9,")));
  EXPECT_EQ(place.read(run_file("t", "metrics.damaged.jsonl")).size(),
            whole.find("{\"step\":4,") - whole.find("{\"step\":3,"));
}

// Every command that takes an older one says so.
TEST_F(RunsHistory, AnOlderCheckpointInPlaceOfADamagedOneIsSaid) {
  train(place, "t");
  train(place, "u");
  place.flip(checkpoint_of("t", 12) + "/tensors-00000.safetensors", 5000);
  const std::vector<std::vector<std::string>> commands = {
      {"evaluate", "runs/t"},
      {"generate", "runs/t", "--prompt", "a", "--max-tokens", "2"},
      {"checkpoint", "show", "runs/t"},
      {"checkpoint", "digest", "runs/t"},
      {"checkpoint", "export-hf", "runs/t", "hf"},
      {"checkpoint", "diff", "runs/t", checkpoint_of("t", 8)},
      {"checkpoint", "diff", checkpoint_of("t", 8), "runs/t"}};
  for (auto command : commands) {
    const Outcome plain = place.run(command);
    EXPECT_EQ(plain.exit_code, 0) << plain.all();
    EXPECT_THAT(plain.err, AllOf(StartsWith("athanor: warning: "), HasSubstr("step_00000012 is skipped: ")))
        << command[0] << " " << command[1];
    place.remove("hf");
    command.push_back("--json");
    const Outcome json = place.run(command);
    EXPECT_THAT(Json::parse(json.out).dump(),
                HasSubstr("\"skipped\":[\"checkpoint runs/t/checkpoints/step_00000012"))
        << command[0] << " " << command[1];
    place.remove("hf");
  }
  const Outcome started = train(place, "v", {"train.init_from=runs/t"});
  EXPECT_THAT(started.out, HasSubstr("warning: checkpoint runs/t/checkpoints/step_00000012 is skipped"));
  for (const std::vector<std::string>& quiet :
       {std::vector<std::string>{"evaluate"}, {"generate", "--max-tokens", "2"}}) {
    const Outcome outcome = place.run([&] {
      std::vector<std::string> words = quiet;
      words.insert(words.end(), {"runs/u", "--json"});
      return words;
    }());
    EXPECT_EQ(outcome.err, "");
    EXPECT_FALSE(Json::parse(outcome.out).contains("skipped"));
  }
}

TEST_F(RunsHistory, AScoreOfNothingIsAFailure) {
  train(place, "t", {"data.valid_fraction=0", "train.eval_every=0"});
  for (const char* json : {"", "--json"}) {
    std::vector<std::string> command = {"evaluate", "runs/t"};
    if (*json != 0) command.emplace_back(json);
    expect_refused(place.run(command), 1, {"nothing is held out", "valid_fraction"});
  }
  for (const char* nothing : {"[]", "[[]]", "[[5]]"}) {
    place.write("ids.json", nothing);
    expect_refused(place.run({"evaluate", "runs/t", "--ids", "ids.json"}), 1, {"nothing to predict"});
  }
}

TEST_F(RunsHistory, TheReportFollowsTheRun) {
  train(place, "t");
  const std::string finished = place.read(run_file("t", "report.json"));
  const Outcome again = train(place, "t");
  EXPECT_THAT(again.out, HasSubstr("nothing to do"));
  EXPECT_THAT(again.out, Not(HasSubstr("parameters")));  // no box of a run that does nothing
  EXPECT_EQ(place.read(run_file("t", "report.json")), finished);
  EXPECT_EQ(event_files("t"), 1u);

  Program run = place.start(train_arguments("t", kEndless));
  ASSERT_TRUE(run.wait_until([&] { return num_lines(place, "t") >= kSteps + 2; }));
  EXPECT_EQ(report(place, "t")["status"], "running");
  EXPECT_EQ(report(place, "t")["pid"], run.pid());
  EXPECT_FALSE(report(place, "t")["valid_loss_last"].is_null());
  const auto listed = [&] {
    return Json::parse(place.output_of({"checkpoint", "list", "runs/t", "--json"}));
  };
  EXPECT_EQ(listed()["run"]["status"], "running");
  expect_refused(place.run(train_arguments("t", kEndless)), 1,
                 {"another process", "process " + std::to_string(run.pid())});
  run.signal(SIGKILL);
  run.finish();
  EXPECT_EQ(report(place, "t")["status"], "running");
  EXPECT_EQ(listed()["run"]["status"], "dead");
  EXPECT_THAT(place.output_of({"checkpoint", "list", "runs/t"}), HasSubstr("run dead at step"));

  // It died behind its last checkpoint: a start that has nothing else to do says how it ended.
  const Outcome idle = train(place, "t", {"train.steps=4"});
  EXPECT_THAT(idle.out, HasSubstr("died at step"));
  EXPECT_EQ(report(place, "t")["status"], "finished");
}

TEST_F(RunsHistory, TheDeathOfAnyRankIsInTheReport) {
  Program run =
      place.start(launch_arguments(3, "t", kEndless + std::vector<std::string>{"launch.max_restarts=0"}));
  ASSERT_TRUE(run.wait_until([&] { return num_lines(place, "t") >= 3; }));
  ASSERT_EQ(::kill(ranks_of(run.pid())[2], SIGKILL), 0);
  EXPECT_EQ(run.finish().exit_code, 1);
  EXPECT_EQ(report(place, "t")["status"], "failed");
  EXPECT_THAT(report(place, "t")["reason"].get<std::string>(), HasSubstr("rank 2"));
  EXPECT_GE(report(place, "t")["steps"], 1);
}

TEST_F(RunsHistory, AStartThatFailsLeavesNoFolder) {
  train(place, "whole", {"train.steps=1"});
  for (const std::vector<std::string>& sets :
       {std::vector<std::string>{"train.init_from=nowhere"},
        {"train.init_from=runs/whole", "model.hidden_size=64"},
        {"model.hidden_size=65536", "model.num_hidden_layers=99", "model.intermediate_size=262144"},
        {"data.tokenizer=nowhere"}}) {
    EXPECT_NE(place.run(train_arguments("t", sets)).exit_code, 0);
    EXPECT_THAT(place.list("runs"), Not(Contains("t"))) << sets[0];
    EXPECT_NE(place.run(launch_arguments(2, "t", sets)).exit_code, 0);
    EXPECT_THAT(place.list("runs"), Not(Contains("t"))) << sets[0] << " on two ranks";
  }
  // One that was there stays as it is.
  const auto before = place.files("runs/whole/checkpoints");
  const std::string said = place.read(run_file("whole", "report.json"));
  EXPECT_NE(place.run(train_arguments("whole", {"model.hidden_size=64"})).exit_code, 0);
  EXPECT_EQ(place.files("runs/whole/checkpoints"), before);
  EXPECT_EQ(place.read(run_file("whole", "report.json")), said);
}

TEST_F(RunsHistory, ARenamedCheckpointIsReadWhereItWasFound) {
  train(place, "whole", {"schedule.decay=constant"});
  train(place, "t", {"schedule.decay=constant", "train.steps=8"});
  std::filesystem::rename(place.path(checkpoint_of("t", 8)), place.path(checkpoint_of("t", 20)));
  const Outcome outcome = train(place, "t", {"schedule.decay=constant"});
  EXPECT_THAT(outcome.out, HasSubstr("step_00000020 holds step 8: its name and its step differ"));
  EXPECT_EQ(num_lines(place, "t"), kSteps);
  EXPECT_EQ(digest(place, checkpoint_of("t", 12)), digest(place, checkpoint_of("whole", 12)));
}

// A kill between saving and removing, or a smaller `keep`: the next start keeps what it should.
TEST_F(RunsHistory, KeepHoldsAfterAKill) {
  train(place, "t", {"checkpoint.every_steps=2", "checkpoint.keep=0"});
  place.write("runs/t/checkpoints/.step_00000010.tmp-0123456789abcdef/x", "half");
  place.write("runs/t/checkpoints/.step_00000002.removed/x", "half");
  train(place, "t", {"checkpoint.keep=2"});  // nothing to do but this
  EXPECT_EQ(place.list("runs/t/checkpoints"), (std::vector<std::string>{"step_00000010", "step_00000012"}));
}

}  // namespace
}  // namespace athanor::tests::history_test
