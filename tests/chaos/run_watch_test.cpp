// A run's folder is followed while it is written, cut back and replaced.
#include "athanor/chaos/run_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "athanor/base/clock.h"
#include "athanor/base/file.h"
#include "support/temporary_folder.h"

namespace athanor::tests::run_watch_test {
namespace {

using ::testing::ElementsAre;

std::string line_of(int64_t step, int64_t generation = 0) {
  return R"({"step":)" + std::to_string(step) + R"(,"generation":)" + std::to_string(generation) + "}\n";
}

class Watch : public ::testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder.path("t/" + name); }
  void append(const std::string& name, const std::string& text) const {
    const auto to = system_env().append_to(file(name));
    to->append(text);
    to->close();
  }
  // The steps of the lines so far, those of generation g above 0 with 100 g.
  std::vector<int64_t> steps(RunWatch& watch) const {
    pollfd polled{watch.fd(), POLLIN, 0};
    poll(&polled, 1, -1);  // something has been written
    watch.take();
    std::vector<int64_t> found;
    for (const SeenStep& seen : watch.steps()) found.push_back(seen.step + 100 * seen.generation);
    return found;
  }
  TemporaryFolder folder;
};

TEST_F(Watch, SeesAFolderThatIsMadeLater) {
  RunWatch watch(folder.path("t"));
  EXPECT_EQ(watch.best_step(), 0);
  EXPECT_EQ(watch.newest_generation(), -1);
  const int64_t before = now_ns();
  system_env().create_folders(folder.path("t"));
  append("metrics.jsonl", line_of(1));
  EXPECT_THAT(steps(watch), ElementsAre(1));
  append("metrics.jsonl", line_of(2) + line_of(3));
  EXPECT_THAT(steps(watch), ElementsAre(1, 2, 3));
  EXPECT_EQ(watch.best_step(), 3);
  EXPECT_GE(watch.step_ns(1), before);
  EXPECT_GE(watch.step_ns(2), watch.step_ns(1));
  EXPECT_EQ(watch.step_ns(4), -1);
}

TEST_F(Watch, SeesWhatIsThereAlready) {
  system_env().create_folders(folder.path("t"));
  append("metrics.jsonl", line_of(1) + line_of(2));
  RunWatch watch(folder.path("t"));
  EXPECT_EQ(watch.best_step(), 2);
}

TEST_F(Watch, AnIncompleteLineWaitsForItsRest) {
  system_env().create_folders(folder.path("t"));
  RunWatch watch(folder.path("t"));
  append("metrics.jsonl", line_of(1) + R"({"step":2,)");
  EXPECT_THAT(steps(watch), ElementsAre(1));
  append("metrics.jsonl", "\"generation\":0}\n");
  EXPECT_THAT(steps(watch), ElementsAre(1, 2));
}

// As a rank that takes the place of a dead one does: lines go, and come again with a newer generation.
TEST_F(Watch, AFileThatIsCutBackOrReplaced) {
  system_env().create_folders(folder.path("t"));
  RunWatch watch(folder.path("t"));
  append("metrics.jsonl", line_of(1) + line_of(2) + line_of(3));
  EXPECT_THAT(steps(watch), ElementsAre(1, 2, 3));
  system_env().truncate(file("metrics.jsonl"), line_of(1).size());
  append("metrics.jsonl", line_of(2, 1) + line_of(3, 1) + line_of(4, 1));
  EXPECT_THAT(steps(watch), ElementsAre(1, 2, 3, 102, 103, 104));
  system_env().write_atomically(file("metrics.jsonl"), line_of(1) + line_of(2, 1) + line_of(3, 2));
  EXPECT_THAT(steps(watch), ElementsAre(1, 2, 3, 102, 103, 104, 203));
  EXPECT_EQ(watch.newest_generation(), 2);
  EXPECT_EQ(watch.best_step(), 4);
}

TEST_F(Watch, SeesEvents) {
  system_env().create_folders(folder.path("t"));
  RunWatch watch(folder.path("t"));
  append("events.jsonl", "{\"event\":\"failure\",\"rank\":1,\"step\":null}\nno JSON\n[1]\n");
  steps(watch);
  ASSERT_EQ(watch.events().size(), 1u);
  EXPECT_EQ(watch.events()[0].kind(), "failure");
  EXPECT_EQ(watch.events()[0].event["rank"], 1);
}

}  // namespace
}  // namespace athanor::tests::run_watch_test
