#include "athanor/launch/diagnosis/memory_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>

#include "athanor/base/philox.h"
#include "athanor/launch/diagnosis/process_counters.h"
#include "support/temporary_folder.h"

namespace athanor::tests::memory_watch_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kMiB = 1 << 20, kHour = 3600;
constexpr int64_t kSecond = 1'000'000'000;

// A run of 10 steps a second, whose memory at each step is given.
struct Sampled {
  std::optional<MemoryGrowth> go_on(double seconds, const std::function<double(double step)>& bytes) {
    for (const int64_t end = now + static_cast<int64_t>(seconds) * kSecond; now < end;) {
      now += kSecond;
      step += 10;
      const double noise = (static_cast<double>(random.uniform(at++, 0)) - 0.5) * noise_bytes;
      const auto sampled = static_cast<int64_t>(bytes(static_cast<double>(step)) + noise);
      if (auto found = watch.sample(0, {step, sampled, now}, left_bytes)) return found;
    }
    return std::nullopt;
  }
  int64_t now = 0, step = 0;
  double noise_bytes = 2 * kMiB, left_bytes = 20'000 * kMiB;
  uint64_t at = 0;
  RandomStream random{7, "memory"};
  MemoryWatch watch{{}};
};

TEST(MemoryWatch, ALeakThatUsesUpTheMemorySoonIsFoundWithinAMinute) {
  const auto grows = [](double step) { return 500 * kMiB + step * 0.1 * kMiB; };
  Sampled run;
  run.left_bytes = 1000 * kMiB;
  const auto found = run.go_on(kHour, grows);
  ASSERT_TRUE(found);
  EXPECT_LE(run.now, 70 * kSecond);
  EXPECT_NEAR(found->bytes_per_step, 0.1 * kMiB, 0.005 * kMiB);
  EXPECT_NEAR(found->steps_per_second, 10, 0.1);
  EXPECT_GE(found->last_step - found->first_step, 100);
  const std::string sentence = sentence_of(*found, 3, 3600 * kMiB, 1);
  EXPECT_THAT(sentence, HasSubstr("rank 3: memory grows by 10"));
  EXPECT_THAT(sentence, HasSubstr("KiB a step (from step "));
  EXPECT_THAT(sentence, HasSubstr("; what is left is used up in 1h00m, at step 36"));
  EXPECT_THAT(sentence_of(*found, 3, 3600 * kMiB, 2), HasSubstr("used up in 30m0"));
  EXPECT_THAT(sentence_of(*found, 3, 0, 1), Not(HasSubstr("used up"))) << "the machine does not say";
  EXPECT_FALSE(run.go_on(kHour, grows)) << "once";
}

TEST(MemoryWatch, ASlowLeakIsFoundInALongerWindow) {
  Sampled run;
  const double a_step = 8.0 / 1024 * kMiB;  // 70 hours are left
  const auto found = run.go_on(6 * kHour, [&](double step) { return 200 * kMiB + step * a_step; });
  ASSERT_TRUE(found);
  EXPECT_GE(run.now, 3000 * kSecond);
  EXPECT_NEAR(found->bytes_per_step, a_step, 0.1 * a_step);
}

TEST(MemoryWatch, ALeakThatBeginsLateIsFound) {
  Sampled run;
  EXPECT_FALSE(run.go_on(kHour, [](double) { return 500 * kMiB; }));
  const auto from = static_cast<double>(run.step);
  EXPECT_TRUE(run.go_on(120, [&](double step) { return 500 * kMiB + (step - from) * 1.0 * kMiB; }));
}

TEST(MemoryWatch, ALeakIsFoundAmongSavesThatNeedMuchForASecond) {
  Sampled run;
  EXPECT_TRUE(run.go_on(600, [](double step) {
    return 500 * kMiB + step * 0.1 * kMiB + (std::fmod(step, 100) == 0 ? 400 * kMiB : 0);
  }));
}

TEST(MemoryWatch, WhatGoesUpAndDownIsNot) {
  for (const double period : {50.0, 200.0, 1000.0, 5000.0}) {
    Sampled run;
    EXPECT_FALSE(run.go_on(1 * kHour, [&](double step) {
      return 500 * kMiB + std::fmod(step, period) / period * 100 * kMiB * std::min(1.0, 500 / period);
    })) << period;
  }
}

TEST(MemoryWatch, WhatFillsUpIsNot) {
  for (const double steps : {20.0, 50.0, 100.0, 200.0, 500.0, 2000.0}) {
    Sampled run;
    EXPECT_FALSE(run.go_on(1 * kHour, [&](double step) {
      return 500 * kMiB + 200 * kMiB * (1 - std::exp(-step / steps));
    })) << steps;
  }
}

TEST(MemoryWatch, AJumpIsNotNorAreTwo) {
  for (const double second : {1e9, 100.0, 250.0, 400.0}) {
    Sampled run;
    EXPECT_FALSE(run.go_on(1 * kHour, [&](double step) {
      return 500 * kMiB + (step > 300 ? 200 * kMiB : 0) + (step > 300 + second ? 200 * kMiB : 0);
    })) << second;
  }
}

TEST(MemoryWatch, NoiseIsNot) {
  Sampled run;
  run.noise_bytes = 200 * kMiB;
  EXPECT_FALSE(run.go_on(5 * kHour, [](double) { return 500 * kMiB; }));
}

TEST(MemoryWatch, LittleGrowthIsNotHoweverLittleIsLeft) {
  const auto grows_by = [](double kib) {
    return [=](double step) { return 50 * kMiB + step * kib / 1024 * kMiB; };
  };
  Sampled by_the_step, in_all, of_much;
  for (Sampled* run : {&by_the_step, &in_all, &of_much}) {
    run->left_bytes = 1;
    run->noise_bytes = 0;
  }
  EXPECT_FALSE(by_the_step.go_on(2 * kHour, grows_by(0.5))) << "less than 1 KiB a step";
  EXPECT_FALSE(in_all.go_on(300, grows_by(2))) << "less than 16 MiB";
  EXPECT_FALSE(of_much.go_on(300, [&](double step) { return 3000 * kMiB + grows_by(50)(step); }))
      << "of 3 GiB";
}

TEST(MemoryWatch, FewStepsSayNothing) {
  Sampled run;
  for (int i = 0; i < 90; ++i) {
    run.now += kSecond;
    const auto bytes = static_cast<int64_t>(static_cast<double>(++run.step) * 50 * kMiB);
    EXPECT_FALSE(run.watch.sample(0, {run.step, bytes, run.now}, 0));
  }
}

TEST(MemoryWatch, AnotherSegmentIsAnotherMemory) {
  Sampled run;
  const auto grows = [](double step) { return 500 * kMiB + step * 0.1 * kMiB; };
  run.left_bytes = 1000 * kMiB;
  EXPECT_FALSE(run.go_on(40, grows));
  run.watch.begin();
  EXPECT_FALSE(run.go_on(40, grows));
  EXPECT_TRUE(run.go_on(40, grows));
  EXPECT_EQ(run.watch.num_told(), 1);
  run.watch.forget(0);
  EXPECT_EQ(run.watch.num_told(), 0);
}

TEST(ProcessCounters, AreReadWhereTheKernelHasThem) {
  const TemporaryFolder root;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root.path(name)).parent_path());
    std::ofstream(root.path(name)) << text;
  };
  write("proc/7/status", "Name:\tathanor\nRssAnon:\t    1000 kB\nRssShmem:\t 500 kB\nVmSwap:\t 24 kB\n");
  write("proc/7/task/7/schedstat", "500 30 2\n");
  write("proc/7/task/8/schedstat", "500 12 2\n");
  EXPECT_EQ(own_memory_bytes(7, root.path("")), 1024 * 1024);
  EXPECT_EQ(processor_delay_ns(7, root.path("")), 42);
  EXPECT_EQ(own_memory_bytes(8, root.path("")), 0);
  EXPECT_EQ(processor_delay_ns(8, root.path("")), 0);
}

}  // namespace
}  // namespace athanor::tests::memory_watch_test
