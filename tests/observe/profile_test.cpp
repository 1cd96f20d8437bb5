#include "athanor/observe/profile.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace athanor::tests::profile_test {
namespace {

// Two steps of 100 ms: a product that takes half of them, a pass over memory, and one call too short to see.
Profiler two_steps() {
  Profiler profiler;
  profiler.meter.add("warmup", "", {1e9, 1e9}, 0, 500'000'000);
  profiler.add_step(9.0, {.data = 9.0});
  profiler.clear();
  for (int step = 0; step < 2; ++step) {
    profiler.meter.add("gemm.nt", "4x5x6", {25e9, 1e6}, 0, 50'000'000);
    profiler.meter.add("adamw", "", {1e6, 400e6}, 0, 20'000'000);
    profiler.meter.add("scale", "", {10, 10}, 0, 1'000);
    profiler.add_step(0.1, {.data = 0.001, .forward = 0.02, .backward = 0.04, .update = 0.03});
  }
  profiler.ceilings = {1e12, 40e9};
  return profiler;
}

TEST(Profile, CountsPerStepAgainstTheHigherFloor) {
  const Profile profile = two_steps().profile();
  EXPECT_EQ(profile.steps, 2);
  EXPECT_DOUBLE_EQ(profile.step_milliseconds, 100.0);
  EXPECT_DOUBLE_EQ(profile.milliseconds.data, 1.0);
  EXPECT_DOUBLE_EQ(profile.milliseconds.backward, 40.0);
  ASSERT_EQ(profile.lines.size(), 3u);
  EXPECT_EQ(profile.lines[0].kernel, "gemm.nt");
  EXPECT_DOUBLE_EQ(profile.lines[0].calls, 1.0);
  EXPECT_DOUBLE_EQ(profile.lines[0].milliseconds, 50.0);
  EXPECT_DOUBLE_EQ(profile.lines[0].floor_milliseconds, 25.0);  // of its arithmetic
  EXPECT_DOUBLE_EQ(profile.lines[1].floor_milliseconds, 10.0);  // of its bytes
  EXPECT_NEAR(profile.kernel_milliseconds, 70.001, 1e-9);
}

TEST(Profile, TableFitsATerminalAndGroupsWhatIsShort) {
  const std::string table = two_steps().profile().table();
  for (size_t start = 0, end; start < table.size(); start = end + 1) {
    end = table.find('\n', start);
    EXPECT_LE(end - start, 100u) << table;
  }
  EXPECT_NE(table.find("others (1)"), std::string::npos) << table;
  EXPECT_EQ(table.find("scale"), std::string::npos) << table;
  EXPECT_EQ(table.find("warmup"), std::string::npos) << table;
  // Half of the step at half of the ceiling.
  EXPECT_NE(table.find("50.00    50.0    25.00    50.0    500.0"), std::string::npos) << table;
  EXPECT_NE(table.find("ms            1.00     20.00     40.00      0.00     30.00      9.00\n"),
            std::string::npos)
      << table;
}

TEST(Profile, JsonHasEveryKernel) {
  const auto json = nlohmann::json::parse(two_steps().profile().to_json());
  EXPECT_EQ(json["steps"], 2);
  EXPECT_EQ(json["kernels"].size(), 3u);
  EXPECT_EQ(json["kernels"][0]["shape"], "4x5x6");
  EXPECT_DOUBLE_EQ(json["parts_ms"]["forward"], 20.0);
  EXPECT_DOUBLE_EQ(json["ceilings"]["gflops"], 1000.0);
}

TEST(Profile, WithoutStepsOrCeilingsThereIsNothingToDivideBy) {
  Profiler profiler;
  profiler.meter.add("gemm.nt", "", {1, 1}, 5, 5);
  const std::string table = profiler.profile().table();
  EXPECT_EQ(table.find("nan"), std::string::npos) << table;
  EXPECT_EQ(table.find("inf"), std::string::npos) << table;
}

}  // namespace
}  // namespace athanor::tests::profile_test
