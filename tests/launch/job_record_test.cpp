// report.json under a launcher: what rank 0 says, and what the launcher adds to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "athanor/base/file.h"
#include "athanor/launch/job_record.h"
#include "support/temporary_folder.h"

namespace athanor::tests::job_record_test {
namespace {

using nlohmann::json;

class JobRecords : public ::testing::Test {
 protected:
  JobRecord record() {
    return {system_env(), {.pid = 7, .host = "here"}, [](const std::string& why) { ADD_FAILURE() << why; }};
  }
  void rank_0_says(const std::string& status, int64_t step, const std::string& reason = "") const {
    system_env().write_atomically(
        folder.path(kRunReportName),
        json({{"status", status}, {"reason", reason}, {"pid", 1234}, {"steps", step}, {"loss", nullptr}})
            .dump());
  }
  bool is_there() const { return system_env().exists(folder.path(kReportName)); }
  json report() const { return json::parse(system_env().read_text(folder.path(kReportName))); }

  TemporaryFolder folder;
};

TEST_F(JobRecords, SayWhatRank0SaysWithWhatTheLauncherKnows) {
  JobRecord job = record();
  EXPECT_EQ(job.next_ns(), kNeverNs);
  job.open(folder.path(""));
  job.renew(1.0, 0);
  EXPECT_FALSE(is_there()) << "no rank has said anything";
  rank_0_says("running", 3);
  job.begun(folder.path(""));
  job.add({.event = "failure", .step = 3, .rank = 1, .cause = "was killed"});
  job.add({.event = "recovered", .recover_seconds = 0.5, .lost_steps = 0});
  job.renew(0.75, 5);
  EXPECT_EQ(job.next_ns(), 1'000'000'005);
  EXPECT_EQ(report()["steps"], 3);
  EXPECT_TRUE(report()["loss"].is_null());
  EXPECT_EQ(report()["status"], "running");
  EXPECT_EQ(report()["pid"], 7);
  EXPECT_EQ(report()["host"], "here");
  EXPECT_EQ(report()["goodput"], 0.75);
  EXPECT_EQ(report()["lost_seconds"]["failure"], 0.5);
  EXPECT_EQ(report()["incidents"][0]["cause"], "was killed");
  rank_0_says("finished", 4);
  job.renew(0.75, 10);
  EXPECT_EQ(report()["status"], "running") << "the launcher lives";
  job.finish(0, "finished", 0.75);
  EXPECT_EQ(report()["status"], "finished");
  EXPECT_EQ(report()["steps"], 4);
}

TEST_F(JobRecords, SayWhyTheJobFailed) {
  JobRecord job = record();
  job.open(folder.path(""));
  rank_0_says("running", 3);
  job.finish(1, "rank 1 was killed", 1.0);
  EXPECT_EQ(report()["status"], "failed");
  EXPECT_EQ(report()["reason"], "rank 1 was killed");
  rank_0_says("failed", 3, "the loss is not finite");
  job.finish(1, "rank 0: the loss is not finite", 1.0);
  EXPECT_EQ(report()["reason"], "the loss is not finite");
  job.finish(75, "interrupted", 1.0);
  EXPECT_EQ(report()["status"], "interrupted");
  EXPECT_EQ(report()["reason"], "");
}

TEST_F(JobRecords, LeaveAloneWhatAnEarlierLaunchHasSaid) {
  rank_0_says("finished", 9);
  system_env().write_atomically(folder.path(kReportName), R"({"status": "finished", "pid": 5})");
  JobRecord job = record();
  job.open(folder.path(""));
  job.renew(1.0, 0);
  job.finish(0, "finished", 1.0);
  EXPECT_EQ(report()["pid"], 5);
  job.finish(2, "rank 0 exited with code 2", 1.0);
  EXPECT_EQ(report()["status"], "finished");
}

TEST_F(JobRecords, EndWhatAKilledLauncherHasLeft) {
  rank_0_says("finished", 9);
  system_env().write_atomically(folder.path(kReportName), R"({"status": "running", "pid": 5})");
  JobRecord job = record();
  job.open(folder.path(""));
  job.finish(1, "failed at once", 1.0);
  EXPECT_EQ(report()["status"], "running");
  job.finish(0, "finished", 1.0);
  EXPECT_EQ(report()["status"], "finished");
  EXPECT_EQ(report()["steps"], 9);
}

}  // namespace
}  // namespace athanor::tests::job_record_test
