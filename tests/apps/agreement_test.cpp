// Ranks that differ are refused before anything is written, each with the same words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/small_run.h"

namespace athanor::tests::agreement_test {
namespace {

using ::testing::HasSubstr;

struct RankOf2 {
  std::vector<std::string> sets = {}, environment = {};
};

class RanksThatDiffer : public ::testing::Test {
 protected:
  RanksThatDiffer() { make_small_run(place); }

  // As two hosts would start them.
  std::vector<Outcome> run(const RankOf2& first, const RankOf2& second) const {
    const std::string port = reserved_port();
    const auto start = [&](const RankOf2& of, const std::string& rank) {
      ProgramOptions options;
      options.environment = {"RANK=" + rank, "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port};
      options.environment = options.environment + of.environment;
      return place.start(
          train_arguments("t", std::vector<std::string>{"train.steps=2", "train.eval_every=0"} + of.sets),
          options);
    };
    Program other = start(second, "1");
    Program one = start(first, "0");
    const Outcome of_one = one.finish();
    return {of_one, other.finish()};
  }
  void expect_refused(const std::vector<Outcome>& outcomes, const std::vector<std::string>& words) const {
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
      for (const std::string& word : words) EXPECT_THAT(outcome.err, HasSubstr(word));
    }
    EXPECT_FALSE(place.exists("runs/t"));
    EXPECT_FALSE(place.exists("own/t"));
  }
  Workplace place;
};

TEST_F(RanksThatDiffer, InASetting) {
  expect_refused(run({}, {.sets = {"optimizer.lr=0.125"}}), {"optimizer.lr: got 0.125 on rank 1, expected "});
}

TEST_F(RanksThatDiffer, InTheTextOfAChannel) {
  place.write("other.txt", invented_text(9, 4000));
  expect_refused(run({}, {.sets = {"data.channels.en.path=other.txt"}}),
                 {"channel 'en': got ", " on rank 1, expected "});
}

TEST_F(RanksThatDiffer, InTheRunFolder) {
  expect_refused(run({}, {.sets = {"train.runs=own"}}),
                 {"train.runs: got a folder of its own on rank 1", "must be one folder that all hosts see"});
}

TEST_F(RanksThatDiffer, InTheInstructionSet) {
  const RankOf2 plain = {.environment = {"ATHANOR_MAX_ISA=generic"}};
  const std::string best = Json::parse(place.output_of({"doctor", "--json"}))["isa"];
  if (best == "generic") GTEST_SKIP() << "this machine has one instruction set only";
  RankOf2 fixed = plain;
  fixed.sets = {"train.isa=avx2"};
  expect_refused(run({.sets = {"train.isa=avx2"}}, fixed),
                 {"train.isa: got 'avx2', expected at most 'generic': rank 1 has no more"});
  const auto outcomes = run({}, plain);
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcomes[0].out, HasSubstr("instruction set generic: rank 1 has no more, others have " + best));
  EXPECT_THAT(place.read("runs/t/logs/rank0.log"), HasSubstr("on generic"));
}

TEST_F(RanksThatDiffer, InWhatEachMayHaveOfItsOwn) {
  const auto outcomes =
      run({}, {.sets = {"train.log_every=2", "train.threads=1", "train.pin_threads=false"}});
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
}

// Two tasks of srun, which have nothing but Slurm's variables.
TEST_F(RanksThatDiffer, AsTasksOfSlurm) {
  const auto task = [](const std::string& number) {
    return std::vector<std::string>{"SLURM_STEP_ID=0",          "SLURM_STEP_NUM_TASKS=2",
                                    "SLURM_PROCID=" + number,   "SLURM_LOCALID=" + number,
                                    "SLURM_STEP_NODELIST=here", "MASTER_PORT="};
  };
  const std::string port = reserved_port();
  const auto start = [&](const std::string& number) {
    ProgramOptions options;
    options.environment = task(number);
    options.environment.back() += port;
    return place.start(train_arguments("t", {"train.steps=2", "train.eval_every=0"}), options);
  };
  Program second = start("1"), first = start("0");
  const Outcome one = first.finish(), other = second.finish();
  EXPECT_EQ(one.exit_code, 0) << one.all();
  EXPECT_EQ(other.exit_code, 0) << other.all();
  EXPECT_THAT(one.out, HasSubstr("rank 0 of 2, 0 of 2 on this host, as Slurm says: SLURM_PROCID 0"));
  EXPECT_EQ(metrics(place, "t").back()["world_size"], 2);
}

}  // namespace
}  // namespace athanor::tests::agreement_test
