// Law 5 on the real program: stopped at any instant and started again, a run ends with the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <random>
#include <set>

#include "apps/small_run.h"
#include "support/places.h"

namespace athanor::tests::resume_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> with(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

ProgramOptions fault(const std::string& what, const std::string& rank = "") {
  ProgramOptions options;
  options.environment = {"LD_PRELOAD=" + built("tests/apps_faults.so"), "ATHANOR_FAULT=" + what};
  if (!rank.empty()) options.environment.push_back("ATHANOR_FAULT_RANK=" + rank);
  return options;
}

// How many file operations a run has.
int64_t count_operations(const Workplace& place, const std::vector<std::string>& arguments) {
  place.output_of(arguments, fault("count:" + place.path("count")));
  return std::stoll(place.read("count"));
}

struct Variant {
  const char* name;
  std::vector<std::string> sets;
};

std::vector<Variant> variants() {
  return {{"f32", {}},
          {"f32_dropout", {"model.dropout=0.1"}},
          {"bf16", {"precision.compute=bf16"}},
          {"bf16_dropout", {"precision.compute=bf16", "model.dropout=0.1"}}};
}

class Resume : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override { make_small_run(place); }
  Workplace place;
};
void PrintTo(const Variant& variant, std::ostream* out) {
  *out << variant.name;
}
INSTANTIATE_TEST_SUITE_P(All, Resume, ::testing::ValuesIn(variants()),
                         [](const auto& variant) { return std::string(variant.param.name); });

// tests/train/kill_points_test.cpp has every point where a run can be killed; here the signal is a real one, to a process
// whose locks, threads and buffers the system drops.
TEST_P(Resume, KilledForRealAtSomeFileOperations) {
  const auto sets = with(GetParam().sets, {"checkpoint.every_steps=3", "checkpoint.keep=2"});
  const int64_t operations = count_operations(place, train_arguments("whole", sets));
  const History whole = history(place, "whole");
  ASSERT_GT(operations, kSteps);
  std::mt19937_64 dice(7);
  for (int round = 0; round < 2; ++round) {
    const std::string name = "r" + std::to_string(round);
    // Two kills, the second one in the resumed run.
    for (int kill = 0; kill < 2; ++kill) {
      const int64_t at = 1 + static_cast<int64_t>(dice() % static_cast<uint64_t>(operations / (kill + 1)));
      const Outcome outcome = place.run(train_arguments(name, sets), fault("kill:" + std::to_string(at)));
      EXPECT_TRUE(outcome.signal == SIGKILL || outcome.exit_code == 0) << at << "\n" << outcome.all();
      if (place.exists(run_file(name, "checkpoints")))
        for (const std::string& checkpoint : place.list(run_file(name, "checkpoints")))
          if (checkpoint[0] != '.') {  // what can be seen is whole
            EXPECT_EQ(
                place.run({"checkpoint", "verify", run_file(name, "checkpoints/" + checkpoint)}).exit_code, 0)
                << "killed at operation " << at;
          }
    }
    train(place, name, sets);
    EXPECT_EQ(history(place, name), whole) << "round " << round;
    EXPECT_THAT(place.list(run_file(name, "checkpoints")), ElementsAre("step_00000009", "step_00000012"));
  }
}

TEST_P(Resume, KilledInTheMiddleOfComputing) {
  std::mt19937_64 dice(11);
  int64_t last = 0;
  for (int kill = 0; kill < 4; ++kill) {
    Program run = place.start(train_arguments("t", with(GetParam().sets, kEndless)));
    const int64_t victim = num_lines(place, "t") + 1 + static_cast<int64_t>(dice() % 7);
    ASSERT_TRUE(run.wait_until([&] { return num_lines(place, "t") >= victim; }));
    run.signal(SIGKILL);
    EXPECT_EQ(run.finish().signal, SIGKILL);
    last = std::max(last, num_lines(place, "t"));
  }
  const auto sets = with(GetParam().sets, until(last + 3));
  train(place, "t", sets);
  train(place, "whole", sets);
  EXPECT_EQ(history(place, "t"), history(place, "whole"));
}

TEST_P(Resume, AnyNumberOfRanksGivesTheSameBits) {
  train(place, "r1", GetParam().sets);
  const History alone = history(place, "r1");
  for (const int ranks : {2, 3, 4, 5}) {
    const std::string name = "r" + std::to_string(ranks);
    train(place, name, GetParam().sets, ranks);
    EXPECT_EQ(history(place, name), alone) << ranks << " ranks";
    for (const Json& line : metrics(place, name)) EXPECT_EQ(line["world_size"], ranks);
    EXPECT_EQ(report(place, name)["valid_loss_last"], report(place, "r1")["valid_loss_last"]);
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_TRUE(place.exists(run_file(name, "logs/rank" + std::to_string(rank) + ".log")));
  }
  // The bits are those of this seed.
  train(place, "s", with(GetParam().sets, {"train.seed=2"}));
  const History other = history(place, "s");
  EXPECT_NE(other.digest, alone.digest);
  EXPECT_NE(other.steps[0], alone.steps[0]);
}

TEST_P(Resume, TheNumberOfRanksChangesOnTheWay) {
  int64_t last = 0;
  for (const int ranks : {2, 3, 1, 5}) {
    const auto sets = with(GetParam().sets, kEndless);
    Program run = place.start(ranks == 1 ? train_arguments("t", sets) : launch_arguments(ranks, "t", sets));
    ASSERT_TRUE(run.wait_until([&] { return num_lines(place, "t") >= last + 5; }));
    run.signal(SIGKILL);
    EXPECT_EQ(run.finish().signal, SIGKILL);
    EXPECT_TRUE(nothing_left_running(/*patient=*/true));  // ranks save where their launcher is gone
    last = num_lines(place, "t");
  }
  const auto sets = with(GetParam().sets, until(last + 2));
  train(place, "t", sets, 4);
  train(place, "whole", sets);
  EXPECT_EQ(history(place, "t"), history(place, "whole"));
}

TEST_P(Resume, CtrlCSavesAndEndsWell) {
  int64_t last = 0;
  for (const int number : {SIGINT, SIGTERM}) {
    Program run = place.start(train_arguments("t", with(GetParam().sets, kEndless)));
    ASSERT_TRUE(run.wait_until([&] { return num_lines(place, "t") >= last + 5; }));
    run.signal(number);
    const Outcome outcome = run.finish();
    EXPECT_EQ(outcome.exit_code, 75) << outcome.all();
    EXPECT_EQ(outcome.err, "");
    last = num_lines(place, "t");
    EXPECT_TRUE(place.exists(checkpoint_of("t", last))) << last;
    EXPECT_EQ(report(place, "t")["status"], "interrupted");
    EXPECT_EQ(report(place, "t")["steps"], last);
  }
  const auto sets = with(GetParam().sets, until(last + 2));
  train(place, "t", sets);
  train(place, "whole", sets);
  EXPECT_EQ(history(place, "t"), history(place, "whole"));
}

class ResumeCase : public ::testing::Test {
 protected:
  void SetUp() override { make_small_run(place); }
  Workplace place;
};

// The last line was being written when the machine stopped, and steps after the newest checkpoint were lost.
TEST_F(ResumeCase, MetricsAreCutBackToTheCheckpoint) {
  train(place, "whole");
  for (const std::string& torn :
       {std::string("{\"step\":13,\"tokens\":41"), std::string("{\"step\":13}\n{\"st"), std::string(4, '\0'),
        std::string("\n"), std::string("not json\n")}) {
    place.remove("runs/t");
    place.copy("runs/whole", "runs/t");
    place.remove(checkpoint_of("t", 12));
    place.write(run_file("t", "metrics.jsonl"), place.read(run_file("t", "metrics.jsonl")) + torn);
    train(place, "t");
    EXPECT_EQ(history(place, "t"), history(place, "whole")) << torn;
  }
}

TEST_F(ResumeCase, ADamagedNewestCheckpointIsPassedOverWithAWarning) {
  train(place, "whole");
  const auto files = place.files(checkpoint_of("whole", 12));
  for (const auto& [file, bytes] : files) {
    place.remove("runs/t");
    place.copy("runs/whole", "runs/t");
    const std::string damaged = checkpoint_of("t", 12) + file.substr(file.rfind('/'));
    place.flip(damaged, bytes.size() / 2, 3);
    const auto older = place.files(checkpoint_of("t", 8));
    const Outcome outcome = train(place, "t");
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr("step_00000012")) << file;
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr("warning")) << file;
    EXPECT_THAT(outcome.out, HasSubstr("resumed from runs/t/checkpoints/step_00000008")) << file;
    EXPECT_EQ(history(place, "t"), history(place, "whole")) << file;
    EXPECT_EQ(place.files(checkpoint_of("t", 8)), older);
  }
}

TEST_F(ResumeCase, AnUnfinishedCheckpointIsNoCheckpoint) {
  train(place, "whole");
  train(place, "t", {"train.steps=8", "schedule.decay=constant"});
  place.copy(checkpoint_of("t", 8), run_file("t", "checkpoints/.step_00000012.unfinished"));
  place.remove(run_file("t", "checkpoints/.step_00000012.unfinished/manifest.json"));
  place.write(run_file("t", "checkpoints/step_notanumber/manifest.json"), "{}");
  place.write(run_file("t", "checkpoints/notes.txt"), "mine");
  const Outcome outcome = train(place, "t", {"schedule.decay=constant"});
  EXPECT_THAT(outcome.out, HasSubstr("resumed from runs/t/checkpoints/step_00000008"));
  EXPECT_TRUE(place.exists(run_file("t", "checkpoints/notes.txt")));
}

TEST_F(ResumeCase, AFinishedRunIsLeftAsItIs) {
  train(place, "t");
  const auto checkpoints = place.files("runs/t/checkpoints");
  const std::string before = place.read(run_file("t", "metrics.jsonl"));
  train(place, "t");
  EXPECT_EQ(place.files("runs/t/checkpoints"), checkpoints);
  EXPECT_EQ(place.read(run_file("t", "metrics.jsonl")), before);
  const Json again = report(place, "t");
  EXPECT_EQ(again["status"], "finished");
  EXPECT_EQ(again["steps"], kSteps);
  EXPECT_FALSE(again["valid_loss_first"].is_null());
  EXPECT_FALSE(again["valid_loss_last"].is_null());
  EXPECT_FALSE(again["train_loss_last"].is_null());
}

TEST_F(ResumeCase, AFinishedRunCanBeExtended) {
  train(place, "whole", {"schedule.decay=constant"});
  train(place, "t", {"schedule.decay=constant", "train.steps=5"});
  train(place, "t", {"schedule.decay=constant"});
  EXPECT_EQ(history(place, "t"), history(place, "whole"));
  EXPECT_EQ(report(place, "t")["valid_loss_first"], report(place, "whole")["valid_loss_first"]);
}

TEST_F(ResumeCase, DynamicLossScalingSurvives) {
  const std::vector<std::string> sets = {"precision.compute=f16", "precision.loss_scale_window=3",
                                         "precision.loss_scale=1e7", "schedule.decay=constant"};
  train(place, "whole", sets);
  for (const int64_t step : {1, 2, 5, 6}) {
    place.remove("runs/t");
    train(place, "t", with(sets, {"train.steps=" + std::to_string(step)}));
    train(place, "t", sets);
    EXPECT_EQ(history(place, "t"), history(place, "whole")) << step;
  }
  std::set<double> scales;
  for (const Json& line : metrics(place, "whole")) scales.insert(line["loss_scale"].get<double>());
  EXPECT_GE(scales.size(), 2u);  // it did change on the way
}

TEST_F(ResumeCase, FastReductionResumesAtTheSameNumberOfRanks) {
  const std::vector<std::string> sets = {"parallel.reduce=fast", "precision.compute=bf16",
                                         "model.dropout=0.1", "schedule.decay=constant"};
  train(place, "whole", sets, 3);
  train(place, "t", with(sets, {"train.steps=7"}), 3);
  train(place, "t", sets, 3);
  EXPECT_EQ(history(place, "t"), history(place, "whole"));
}

TEST_F(ResumeCase, OptimizersAndTiedWeightsResumeToo) {
  const std::vector<std::vector<std::string>> settings = {
      {"optimizer.name=sgd", "optimizer.lr=0.3"},
      {"model.tie_word_embeddings=true", "schedule.decay=wsd"},
      {"model.model_type=gpt2", "model.num_key_value_heads=4", "model.bias=true", "model.dropout=0.1",
       "schedule.decay=linear"}};
  int number = 0;
  for (const auto& sets : settings) {
    const std::string name = "v" + std::to_string(number++);
    train(place, name + "whole", sets);
    const auto arguments = train_arguments(name, sets);
    Program run = place.start(arguments);
    run.wait_until([&] { return place.exists(checkpoint_of(name, 4)); });
    run.signal(SIGKILL);
    run.finish();
    train(place, name, sets, 2);
    EXPECT_EQ(history(place, name), history(place, name + "whole")) << sets[0];
  }
}

// Two that write one run would cut each other's metrics.
TEST_F(ResumeCase, ARunIsTrainedByOneProcessAtATime) {
  Program first = place.start(train_arguments("t", kEndless));
  ASSERT_TRUE(first.wait_until([&] { return num_lines(place, "t") >= 5; }));
  expect_refused(place.run(train_arguments("t", kEndless)), 1, {"runs/t", "another process"});
  expect_refused(place.run(train_arguments("t", {"train.steps=3"})), 1, {"runs/t", "another process"});
  first.signal(SIGINT);
  EXPECT_EQ(first.finish().exit_code, 75);
  const int64_t last = num_lines(place, "t");
  EXPECT_GE(last, 5);
  train(place, "t", until(last + 2));
  train(place, "whole", until(last + 2));
  EXPECT_EQ(history(place, "t"), history(place, "whole"));
}

TEST_F(ResumeCase, TheSecondCtrlCEndsNow) {
  // It does not get beyond its first checkpoint, which the first signal asks for if step 4 has not.
  Program run = place.start(train_arguments("t", kEndless), held_at("/tensors-", place.path("never")));
  ASSERT_TRUE(run.wait_until([&] { return num_lines(place, "t") >= 1; }));
  run.signal(SIGINT);
  // Signals closer together count as one, so this goes on until one is taken as the second.
  while (run.wait_until([tries = 0]() mutable { return ++tries > 20; })) run.signal(SIGTERM);
  const Outcome outcome = run.finish();
  EXPECT_EQ(outcome.exit_code, 128 + SIGTERM) << outcome.all();
  EXPECT_THAT(outcome.out, HasSubstr("press Ctrl-C again to end at once"));
}

}  // namespace
}  // namespace athanor::tests::resume_test
