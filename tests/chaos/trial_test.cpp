// Whole trials with a program that only behaves like athanor: what goes well passes, and each way in which a job can go
// wrong is seen from outside.
#include "athanor/chaos/trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "athanor/base/error.h"
#include "athanor/chaos/faults.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/comm/group.h"
#include "support/engine.h"
#include "support/temporary_folder.h"

namespace athanor::tests::chaos_trial_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A launcher of ranks that sleep, and which writes the files of a run. $MODE says how it goes on after a fault.
constexpr const char* kProgram = R"(#!/bin/bash
if [ "$1" = dataset ]; then echo '{"phases":[{"first_step":1,"last_step":6,"hash":"abc"}]}'; exit; fi
ranks=$3; shift 6
while [ $# -gt 0 ]; do
  case $2 in
    train.runs=*) runs=${2#*=} ;;
    train.name=*) name=${2#*=} ;;
    launch.max_restarts=0) MODE=ends ;;
  esac
  shift 2
done
run=$runs/$name
again=$(cat "$run/again" 2>/dev/null)
mkdir -p "$run"; mkfifo "$run/ready$again"; exec 3<>"$run/ready$again"
event() { echo "{\"event\":\"$1\",\"rank\":$2}" >>"$run/events.jsonl"; }
steps() {  # FIRST LAST GENERATION
  for step in $(seq "$1" "$2"); do
    echo "{\"step\":$step,\"tokens\":1,\"loss\":${loss:-0.5},\"channel_loss\":{},\"grad_norm\":1.0,\"lr\":1.0,\"loss_scale\":1.0,\"generation\":$3}"
  done >>"$run/metrics.jsonl"
}
start() { RANK=$1 bash -c 'echo >&3; exec sleep 100000' & pids[$1]=$!; read -r -u 3; }
finish() {  # FIRST GENERATION
  [ "$MODE" = other_bits ] && loss=0.25
  steps "$1" 6 "$2"
  cp -r "$runs/../checkpoint" "$run/checkpoints"
  [ "$MODE" = leaves ] && unset 'pids[0]'
  [ "$MODE" = socket ] && mkdir "$XDG_RUNTIME_DIR/athanor-x"
  for pid in "${pids[@]}"; do kill -9 "$pid"; done
  wait "${pids[@]}" 2>/dev/null
  exit 0
}
stopped() { event stop 0; echo 7 >"$run/again"; kill -9 "${pids[@]}"; exit 75; }
trap stopped TERM
for rank in $(seq 0 $((ranks - 1))); do start "$rank"; done
[ -n "$again" ] && finish 4 7
if [[ "$MODE" = undisturbed* ]]; then steps 1 5 0; finish 6 0; fi
if [ "$MODE" = has_master ]; then
  mkdir -p "$XDG_RUNTIME_DIR/athanor-x"; touch "$XDG_RUNTIME_DIR/athanor-x/journal"
  bash -c 'exec -a "athanor launch-master 3" sleep 100000' & master=$!
  until grep -q launch-master "/proc/$master/cmdline"; do :; done
  steps 1 3 0
  wait "$master"
  [ -e "$XDG_RUNTIME_DIR/athanor-x/journal" ] || { kill -9 "${pids[@]}"; exit 1; }
  rm -r "$XDG_RUNTIME_DIR/athanor-x"
  steps 4 5 0; finish 6 0
fi
steps 1 3 0
wait -n "${pids[@]}"
echo "athanor: error: a rank was killed" >&2
for rank in "${!pids[@]}"; do [ -d "/proc/${pids[rank]}" ] || { event failure "$rank"; dead=$rank; }; done
[ "$MODE" = ends ] && { kill -9 "${pids[@]}"; exit 1; }
restart() { event restart "$1"; start "$1"; }
restart "$dead"
other=$(((dead + 1) % ranks))
[ "$MODE" = restarts_others ] && { kill -9 "${pids[other]}"; restart "$other"; }
event recovered null
from=4
[ "$MODE" = late_line ] && { steps 4 4 0; tail -n 1 "$run/metrics.jsonl" >"$run/metrics.abandoned.jsonl"; }
[ "$MODE" = redoes_one ] && from=3
[ "$MODE" = redoes_two ] && from=2
[ "$MODE" = skips ] && from=5
sed -i "$from,\$d" "$run/metrics.jsonl"
steps "$from" 5 1
finish 6 1
)";

constexpr double kAtStep3 = 0.45;  // of six steps

class TrialOfAProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string program = folder.path("athanor");
    system_env().write_atomically(program, kProgram);
    ASSERT_EQ(chmod(program.c_str(), 0755), 0);
    system_env().create_folders(folder.path("runs"));
    Engine engine;
    write_checkpoint(system_env(), *make_single_group(), folder.path("checkpoint"),
                     {.step = 6,
                      .state = R"({"seed":1,"step":6,"tokens":6})",
                      .tensors = {{"w", engine.random({7, 5}, "w")}},
                      .files = {}});
    undisturbed = run_undisturbed(command("undisturbed"));
    // Its lines may have been seen all at once.
    for (size_t i = 0; i < undisturbed.steps.size(); ++i)
      undisturbed.steps[i].at_ns = static_cast<int64_t>(i) * 1'000'000;
  }
  JobCommand command(const std::string& mode, int ranks = 2) const {
    return {.program = folder.path("athanor"),
            .num_ranks = ranks,
            .config = "run.toml",
            .runs = folder.path("runs"),
            .name = mode,
            .environment = {"PATH=/usr/bin:/bin", "MODE=" + mode}};
  }
  TrialResult trial(const std::string& mode, const chaos::Fault& fault = kill_fault(),
                    std::vector<int> ranks = {1}, bool is_control = false) {
    return run_trial(command(mode), undisturbed, fault, {.ranks = std::move(ranks), .instant = kAtStep3},
                     is_control);
  }
  TemporaryFolder folder;
  Undisturbed undisturbed;
};

TEST_F(TrialOfAProgram, TheUndisturbedRun) {
  EXPECT_EQ(undisturbed.last_step(), 6);
  EXPECT_EQ(undisturbed.evidence.steps.size(), 6u);
  EXPECT_EQ(undisturbed.evidence.ledger, "steps 1 to 6: abc");
  EXPECT_THAT(undisturbed.evidence.digest, HasSubstr("6 "));
}

TEST_F(TrialOfAProgram, AJobThatRecovers) {
  for (const int rank : {0, 1}) {
    TrialResult result = trial("recovers", kill_fault(), {rank});
    EXPECT_THAT(result.why, IsEmpty());
    EXPECT_TRUE(result.bitwise());
    EXPECT_EQ(result.seen.exit_code, 0);
    EXPECT_EQ(result.seen.lost_steps, 0);
    EXPECT_EQ(result.seen.survivors_kept_pids, true);
    EXPECT_GE(result.seen.detect_seconds, 0.0);
    EXPECT_TRUE(result.seen.recover_seconds.has_value());
    EXPECT_EQ(result.seen.at_step, 3);
    system_env().remove_all(folder.path("runs/recovers"));
  }
}

TEST_F(TrialOfAProgram, WhatGoesWrongIsSeen) {
  const auto why = [&](const std::string& mode) { return trial(mode).why; };
  EXPECT_THAT(why("ends"),
              ElementsAre(HasSubstr("exited with code 1, expected exit code 0 (a rank was killed)"),
                          "no step was seen after the fault", HasSubstr("lost its process")));
  EXPECT_THAT(why("other_bits"), ElementsAre("step 6: loss: got 0.25, expected 0.5"));
  EXPECT_THAT(why("skips"), ElementsAre("step 4 is missing"));
  EXPECT_THAT(why("redoes_one"), IsEmpty());
  EXPECT_THAT(why("redoes_two"), ElementsAre("2 steps were lost, expected at most 1"));
  EXPECT_THAT(why("restarts_others"), ElementsAre("a rank that was not struck lost its process"));
  EXPECT_THAT(why("leaves"), ElementsAre(HasSubstr("left behind: process ")));
  EXPECT_THAT(why("socket"), ElementsAre("left behind: socket folder athanor-x"));
}

// Rank 0 may still write the line of a step that was done before the fault: that is no recovery.
TEST_F(TrialOfAProgram, ALineThatIsWrittenLate) {
  const TrialResult result = trial("late_line");
  EXPECT_THAT(result.why, IsEmpty());
  EXPECT_EQ(result.seen.lost_steps, 1);
}

TEST_F(TrialOfAProgram, TheControlTakesTheProtectionOff) {
  const TrialResult result = trial("recovers", kill_fault(), {1}, /*is_control=*/true);
  EXPECT_TRUE(result.is_control);
  EXPECT_FALSE(result.passed());
  EXPECT_EQ(result.seen.exit_code, 1);
}

TEST_F(TrialOfAProgram, AMasterIsKilled) {
  const TrialResult result = trial("has_master", kill_master_fault(), {});
  EXPECT_THAT(result.why, IsEmpty());
  EXPECT_EQ(result.seen.survivors_kept_pids, true);
  system_env().remove_all(folder.path("runs/has_master"));
  const TrialResult control = trial("has_master", kill_master_fault(), {}, /*is_control=*/true);
  EXPECT_THAT(control.why, ::testing::Contains(HasSubstr("exited with code 1, expected exit code 0")));
}

TEST_F(TrialOfAProgram, AMasterThatIsGoneIsMissed) {
  EXPECT_THAT(trial("undisturbed_again", kill_master_fault(), {}).why,
              ::testing::Contains("the master had ended before it was struck"));
}

TEST_F(TrialOfAProgram, AJobThatIsAskedToEndGoesOn) {
  const TrialResult result = trial("recovers", stop_term_fault(), {});
  EXPECT_THAT(result.why, IsEmpty());
  EXPECT_EQ(result.seen.exit_code, 75);
  EXPECT_EQ(result.seen.second_exit_code, 0);
  EXPECT_EQ(result.seen.lost_steps, 0);
}

TEST_F(TrialOfAProgram, AnUndisturbedRunThatFailsIsAnError) {
  try {
    run_undisturbed(command("ends", 0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("undisturbed"));
  }
}

}  // namespace
}  // namespace athanor::tests::chaos_trial_test
