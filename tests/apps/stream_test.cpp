// A job that trains on what a producer writes into its standard input, while its ranks are killed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "apps/small_run.h"

namespace athanor::tests::stream_test {
namespace {

// 60 documents, the text of some seventy steps.
std::string lines_of(int first, int last) {
  std::string lines;
  for (int d = first; d < last; ++d)
    lines += Json{{"text", invented_text(100 + static_cast<uint64_t>(d), 40)}}.dump() + "\n";
  return lines;
}

class Stream : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    make_small_run(place);
    std::string toml = place.read("run.toml");
    const std::string path = R"(path = "en.txt")";
    toml.replace(toml.find(path), path.size(), R"(path = "-")");
    toml.replace(toml.find("[data]"), 6, "[data]\nshuffle_window = 16");
    place.write("run.toml", toml);
  }
  const std::vector<std::string> sets = {"train.steps=100000", "schedule.decay=constant",
                                         "train.eval_every=0"};
  Workplace place;
};

TEST_P(Stream, KilledRanksLoseAndRepeatNothing) {
  const int ranks = GetParam();
  const Outcome whole = place.run(train_arguments("whole", sets), {.input = lines_of(0, 60)});
  ASSERT_EQ(whole.exit_code, 0) << whole.all();
  const History expected = history(place, "whole");
  ASSERT_GT(expected.steps.size(), 50u);

  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Program job = place.start(launch_arguments(ranks, "t", sets), {.input_fd = ends[0]});
  close(ends[0]);
  const auto put = [&](const std::string& lines) {
    ASSERT_EQ(write(ends[1], lines.data(), lines.size()), std::ssize(lines));
  };
  put(lines_of(0, 20));
  for (int kills = 0; kills < 6; ++kills) {
    const int64_t steps = 3 + 8 * kills;
    ASSERT_TRUE(job.wait_until([&] { return num_lines(place, "t") >= steps; })) << job.errors_so_far();
    // Half a line comes before the death, its other half after it.
    const std::string lines = lines_of(20 + 6 * kills, 26 + 6 * kills);
    put(lines.substr(0, lines.size() / 2));
    ASSERT_EQ(kill(ranks_of(job.pid()).at(kills % ranks), SIGKILL), 0);
    put(lines.substr(lines.size() / 2));
  }
  put(lines_of(56, 60));
  close(ends[1]);
  const Outcome outcome = job.finish();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_EQ(history(place, "t"), expected);
  EXPECT_TRUE(nothing_left_running());
}

INSTANTIATE_TEST_SUITE_P(Ranks, Stream, ::testing::Values(1, 2, 3),
                         [](const auto& of) { return "ranks" + std::to_string(of.param); });

}  // namespace
}  // namespace athanor::tests::stream_test
