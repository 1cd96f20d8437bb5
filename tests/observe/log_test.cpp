#include "athanor/observe/log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "athanor/base/error.h"
#include "observe/fault_env.h"

namespace athanor::tests::log_test {
namespace {

class Log : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        testing::TempDir() + "/athanor_log_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    path_ = folder_ + "/logs/rank0.log";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string text(const std::string& suffix = "") const { return system_env().read_text(path_ + suffix); }
  std::string folder_, path_;
  LogOptions options_ = {.clock = [] { return 1777636800.1234; }};
};

TEST_F(Log, TimesAreUtcWithMilliseconds) {
  EXPECT_EQ(utc_time(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(utc_time(1777636800.1234), "2026-05-01T12:00:00.123Z");
  EXPECT_EQ(utc_time(951825599.9996), "2000-02-29T12:00:00.000Z");  // rounds into the next second
}

TEST_F(Log, LinesAreInTheFileAtOnceAndAppend) {
  {
    LogFile log(system_env(), path_, options_);
    log.write(LogLevel::info, "resumed");
    EXPECT_EQ(text(), "2026-05-01T12:00:00.123Z info    resumed\n");
    log.write(LogLevel::debug, "not shown");
  }
  LogFile log(system_env(), path_, options_);
  log.write(LogLevel::error, "two\nlines\x1b[0m\n");
  EXPECT_EQ(text(),
            "2026-05-01T12:00:00.123Z info    resumed\n"
            "2026-05-01T12:00:00.123Z error   two\n"
            "2026-05-01T12:00:00.123Z error   lines?[0m\n");
}

TEST_F(Log, RotatesAndForgetsTheOldest) {
  options_.max_bytes = 100;  // two lines of 37 bytes
  options_.keep = 2;
  LogFile log(system_env(), path_, options_);
  for (int i = 0; i < 9; ++i) log.write(LogLevel::info, "n" + std::to_string(i));
  EXPECT_NE(text().find("n8"), std::string::npos);
  EXPECT_NE(text(".1").find("n6"), std::string::npos);
  EXPECT_NE(text(".1").find("n7"), std::string::npos);
  EXPECT_NE(text(".2").find("n4"), std::string::npos);
  EXPECT_FALSE(system_env().exists(path_ + ".3"));
  EXPECT_LE(text(".1").size(), 100u);
  log.write(LogLevel::info, std::string(500, 'x'));  // longer than a file: alone in its own
  EXPECT_GT(text().size(), 500u);
}

TEST_F(Log, AFullDiskDropsLinesAndSaysSo) {
  FullDiskEnv env(60);
  LogFile log(env, path_, options_);
  log.write(LogLevel::info, "fits");
  EXPECT_NO_THROW(log.write(LogLevel::info, "does not"));
  EXPECT_NO_THROW(log.write(LogLevel::error, "does not"));
  env.set_room(1000);
  log.write(LogLevel::info, "again");
  log.write(LogLevel::info, "and again");
  EXPECT_EQ(text().find("could not be written"), text().rfind("could not be written"));
  EXPECT_NE(text().find("warning 2 lines before this one could not be written"), std::string::npos) << text();
  EXPECT_NE(text().find("again"), std::string::npos);
}

TEST_F(Log, OpeningReports) {
  std::filesystem::create_directories(path_);  // a folder where the file should be
  EXPECT_THROW(LogFile(system_env(), path_, options_), IoError);
}

TEST_F(Log, ThreadsDoNotMixTheirLines) {
  options_.max_bytes = 2000;
  options_.keep = 100;
  {
    LogFile log(system_env(), path_, options_);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&log, t] {
        for (int i = 0; i < 100; ++i) log.write(LogLevel::info, "thread " + std::to_string(t));
      });
    for (auto& thread : threads) thread.join();
  }
  size_t lines = 0;
  for (const auto& name : system_env().list(folder_ + "/logs")) {
    const std::string all = system_env().read_text(folder_ + "/logs/" + name);
    EXPECT_EQ(all.size() % 42, 0u);  // every line has 42 bytes
    for (size_t at = 0; at < all.size(); at += 42, ++lines) EXPECT_EQ(all.substr(at + 33, 7), "thread ");
  }
  EXPECT_EQ(lines, 400u);
}

}  // namespace
}  // namespace athanor::tests::log_test
