// `athanor launch` writes checkpoints out of the slots while the ranks train on: with the bytes of those that the ranks
// write, and whatever happens meanwhile.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "apps/small_run.h"

namespace athanor::tests::background_save_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> kSets = {"checkpoint.every_steps=4", "checkpoint.keep=0"};

// Of the run that nothing disturbs, with which others are compared.
const std::vector<std::string> kEveryStep = {"checkpoint.every_steps=1", "checkpoint.keep=0"};

class BackgroundSave : public ::testing::Test {
 protected:
  void SetUp() override { make_small_run(place); }
  // The launcher's thread stands in the middle of the checkpoint of `step` until release().
  Program hold(int64_t step, const std::vector<std::string>& sets) {
    return place.start(launch_arguments(2, "t", sets),
                       held_at(fmt::format(".step_{:08d}.tmp-", step), place.path("go")));
  }
  void release() { place.write("go", ""); }
  void reaches(Program& job, int64_t step) {
    ASSERT_TRUE(job.wait_until([&] { return num_lines(place, "t") >= step; })) << job.errors_so_far();
  }
  std::string digest(const std::string& name, int64_t step) {
    return place.output_of({"checkpoint", "digest", checkpoint_of(name, step)}).substr(0, 64);
  }
  Workplace place;
};

TEST_F(BackgroundSave, HasTheBytesOfAForegroundSave) {
  train(place, "t", kSets, 2);
  const auto checkpoints = place.list("runs/t/checkpoints");
  EXPECT_THAT(checkpoints, ElementsAre("step_00000004", "step_00000008", "step_00000012"));
  const std::string of_background = place.read(checkpoint_of("t", 4) + "/tensors-00001.safetensors"),
                    manifest = place.read(checkpoint_of("t", 4) + "/manifest.json");
  place.remove("runs/t");
  train(place, "t", kSets + std::vector<std::string>{"checkpoint.background=off"}, 2);
  EXPECT_EQ(place.list("runs/t/checkpoints"), checkpoints);
  EXPECT_TRUE(place.read(checkpoint_of("t", 4) + "/tensors-00001.safetensors") == of_background);
  // The manifests differ by the checksum of the settings, which have checkpoint.background, and by their own.
  const Json is = Json::parse(manifest),
             expected = Json::parse(place.read(checkpoint_of("t", 4) + "/manifest.json"));
  EXPECT_EQ(is["tensors"], expected["tensors"]);
  EXPECT_EQ(is["state"], expected["state"]);
}

// It is held up for as long as the test wants: a save that comes due meanwhile is skipped, the last one waits.
TEST_F(BackgroundSave, TrainingDoesNotWaitAndTheNextIsSkipped) {
  Program job = hold(4, kSets + std::vector<std::string>{"train.steps=14"});
  reaches(job, 13);
  ASSERT_TRUE(
      job.wait_until([&] { return job.output_so_far().find("step 12 is not saved") != std::string::npos; }));
  EXPECT_THAT(job.output_so_far(),
              HasSubstr("step 8 is not saved: the checkpoint before it is still being written"));
  EXPECT_THAT(place.list("runs/t/checkpoints"), ElementsAre(HasSubstr(".step_00000004.tmp-")));
  EXPECT_THAT(job.output_so_far(), Not(HasSubstr("saved runs")));
  release();
  EXPECT_EQ(job.finish().exit_code, 0) << job.errors_so_far();
  EXPECT_THAT(place.list("runs/t/checkpoints"), ElementsAre("step_00000004", "step_00000014"));
  train(place, "u", kEveryStep + std::vector<std::string>{"train.steps=14"});
  for (const int64_t step : {4, 14}) EXPECT_EQ(digest("t", step), digest("u", step));
  EXPECT_EQ(history(place, "t"), history(place, "u"));
}

TEST_F(BackgroundSave, ARankThatDiesTakesNoCheckpointWithIt) {
  for (const int rank : {0, 1}) {
    Program job = hold(4, kEndless + kSets);
    reaches(job, 6);
    kill(ranks_of(job.pid()).at(rank), SIGKILL);
    const int64_t lines = num_lines(place, "t");
    reaches(job, lines + 8);
    EXPECT_FALSE(place.exists(checkpoint_of("t", 4)));
    release();
    ASSERT_TRUE(job.wait_until([&] { return place.exists(checkpoint_of("t", 4)); })) << job.errors_so_far();
    const int64_t next = num_lines(place, "t") + 8;
    reaches(job, next);
    job.signal(SIGINT);
    EXPECT_EQ(job.finish().exit_code, 75) << job.errors_so_far();
    EXPECT_TRUE(nothing_left_running());
    train(place, "u", kEveryStep + until(num_lines(place, "t")));
    EXPECT_GE(place.list("runs/t/checkpoints").size(), 3u) << "saves go on after it";
    for (const std::string& name : place.list("runs/t/checkpoints")) {
      const int64_t step = std::stoll(name.substr(5));
      EXPECT_EQ(digest("t", step), digest("u", step)) << "rank " << rank << ", " << name;
    }
    for (const char* left : {"go", "runs/t", "runs/u"}) place.remove(left);
  }
}

// The next agent is told of what the one before it has not finished.
TEST_F(BackgroundSave, AnAgentThatDiesTakesNoCheckpointWithIt) {
  Program job = hold(4, kEndless + kSets);
  reaches(job, 6);
  const pid_t agent = agent_of(job.pid());
  kill(agent, SIGKILL);
  ASSERT_TRUE(job.wait_until([&] { return agent_of(job.pid()) > 0 && agent_of(job.pid()) != agent; }));
  reaches(job, num_lines(place, "t") + 8);
  EXPECT_FALSE(place.exists(checkpoint_of("t", 4)));
  release();
  ASSERT_TRUE(job.wait_until([&] { return place.exists(checkpoint_of("t", 4)); })) << job.errors_so_far();
  reaches(job, num_lines(place, "t") + 8);
  job.signal(SIGINT);
  EXPECT_EQ(job.finish().exit_code, 75) << job.errors_so_far();
  EXPECT_TRUE(nothing_left_running(/*patient=*/true));  // the master of the agent that died
  train(place, "u", kEveryStep + until(num_lines(place, "t")));
  EXPECT_GE(place.list("runs/t/checkpoints").size(), 3u) << "saves go on after it";
  for (const std::string& name : place.list("runs/t/checkpoints"))
    EXPECT_EQ(digest("t", std::stoll(name.substr(5))), digest("u", std::stoll(name.substr(5)))) << name;
}

TEST_F(BackgroundSave, TheDeathOfTheLauncherLeavesNoneOfIt) {
  {
    Program job = hold(8, kEndless + kSets);
    reaches(job, 10);
    EXPECT_EQ(place.list("runs/t/checkpoints").front().substr(0, 14), ".step_00000008");
    job.signal(SIGKILL);
    release();  // its agent sees that the ranks save and end
    job.finish();
  }
  EXPECT_TRUE(nothing_left_running(/*patient=*/true));
  train(place, "t", kSets + until(16), 2);
  train(place, "u", kEveryStep + until(16));
  for (const std::string& name : place.list("runs/t/checkpoints"))
    EXPECT_EQ(digest("t", std::stoll(name.substr(5))), digest("u", std::stoll(name.substr(5)))) << name;
}

}  // namespace
}  // namespace athanor::tests::background_save_test
