// What a run's folder says of the run: that it had a checkpoint, and what became of the process that trained it.
#include "athanor/run/run_history.h"

#include <gtest/gtest.h>

#include "athanor/run/report.h"
#include "support/temporary_folder.h"

namespace athanor::tests::run_history_test {
namespace {

class RunHistory : public ::testing::Test {
 protected:
  RunHistory()
      : run([&] {
          Config config;
          config.train.runs = folder.path("runs");
          config.train.name = "t";
          return config;
        }()) {
    system_env().create_folders(run.path);
  }
  std::string refusal(const std::vector<std::string>& skipped) const {
    try {
      check_may_begin(system_env(), run, skipped);
      return "";
    } catch (const Error& error) {
      return std::string(error.what()) + "\n" + error.hint();
    }
  }
  void write_report(const std::string& text) const {
    system_env().write_atomically(run.file("report.json"), text);
  }
  const TemporaryFolder folder;
  const RunFolder run;
};

TEST_F(RunHistory, ARunThatHadACheckpointDoesNotBeginAgain) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_FALSE(has_committed(system_env(), run));
  const std::string damaged = refusal({"checkpoint step_00000009 is skipped: torn"});
  EXPECT_NE(damaged.find("step_00000009 is skipped: torn"), std::string::npos) << damaged;
  record_commit(system_env(), run, 5);
  const std::string first = system_env().read_text(run.file("committed.json"));
  record_commit(system_env(), run, 10);
  EXPECT_EQ(system_env().read_text(run.file("committed.json")), first);
  const std::string gone = refusal({});
  EXPECT_NE(gone.find("has saved checkpoints before"), std::string::npos) << gone;
  EXPECT_NE(gone.find("start anew"), std::string::npos) << gone;
}

TEST_F(RunHistory, AReportWithADigestSaysThatTooForProgramsThatKeptNoRecord) {
  for (const char* none : {"", "{", "[]", "{\"digest\": \"\"}", "{\"digest\": null}", "{\"status\": 3}"}) {
    write_report(none);
    EXPECT_EQ(refusal({}), "") << none;
  }
  write_report("{\"digest\": \"5013\"}");
  EXPECT_NE(refusal({}), "");
}

TEST_F(RunHistory, ARunningProcessThatHoldsNoLockIsDead) {
  EXPECT_FALSE(run_status(system_env(), run.path).has_value());
  write_report("torn");
  EXPECT_FALSE(run_status(system_env(), run.path).has_value());
  for (const char* status : {"running", "finished", "interrupted", "failed"}) {
    TrainReport report;
    report.status = status;
    report.reason = "because";
    report.steps = 7;
    report.set_writer();
    write_report(report.to_json());
    const bool runs = report.status == "running";
    const auto free = run_status(system_env(), run.path);
    ASSERT_TRUE(free.has_value());
    EXPECT_EQ(free->status, runs ? "dead" : status);
    EXPECT_EQ(free->reason, "because");
    EXPECT_EQ(free->steps, 7);
    EXPECT_EQ(free->pid, getpid());
    EXPECT_EQ(free->host, host_name());
    const FolderLock lock = lock_run(run.path);
    EXPECT_EQ(run_status(system_env(), run.path)->status, status);
    EXPECT_EQ(run_status(system_env(), run.path, /*holds_lock=*/true)->status, runs ? "dead" : status);
  }
}

TEST_F(RunHistory, AReportReadsBack) {
  TrainReport report;
  report.run_folder = run.path;
  report.status = "failed";
  report.reason = "step 3: \"why\"";
  report.set_writer();
  report.ranks = 4;
  report.steps = 9;
  report.train_loss_last = 0.1;
  report.valid_loss_first = 5.5;  // the last stays none
  report.channel_loss_last = {{"zh", 1.5}, {"en", 0.25}};
  report.seconds = 1.25;
  report.peak_bytes = int64_t{1} << 40;
  report.digest = "5013";
  const auto back = TrainReport::parse(report.to_json());
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->to_json(), report.to_json());
  for (const char* none : {"", "{", "[]", "{}", "null"}) EXPECT_FALSE(TrainReport::parse(none)) << none;
}

}  // namespace
}  // namespace athanor::tests::run_history_test
