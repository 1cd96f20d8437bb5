#include "athanor/observe/metrics.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>

#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/philox.h"
#include "observe/fault_env.h"

namespace athanor::tests::metrics_test {
namespace {

class Metrics : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/athanor_metrics_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    path_ = folder_ + "/metrics.jsonl";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string text() const { return system_env().read_text(path_); }
  void write_steps(int64_t first, int64_t last, int64_t resumed) {
    MetricsWriter writer(env_, path_, resumed);
    for (int64_t step = first; step <= last; ++step)
      writer.write({.step = step, .loss = 1.0 / static_cast<double>(step)});
  }
  FullDiskEnv env_{int64_t{1} << 40};
  std::string folder_, path_;
};

TEST_F(Metrics, LoadsOfExpertsReadBack) {
  StepMetrics m;
  m.step = 1;
  m.experts = ExpertMetrics{1.25, {1.25, 1.125}, 0.5, 1.0625, 4.5};
  const std::string line = metrics_line(m);
  EXPECT_TRUE(
      line.ends_with(R"(,"load_imbalance":1.25,"load_imbalance_by_layer":[1.25,1.125],"token_drop_rate":0.5,)"
                     R"("router_aux_loss":1.0625,"router_z_loss":4.5})"))
      << line;
  const StepMetrics back = parse_metrics_line(line);
  ASSERT_TRUE(back.experts);
  EXPECT_EQ(back.experts->layers, m.experts->layers);
  EXPECT_EQ(metrics_line(back), line);
  EXPECT_FALSE(parse_metrics_line(metrics_line(StepMetrics{.step = 1})).experts);
}

TEST_F(Metrics, LineIsExactlyThis) {
  const StepMetrics m = {.step = 3,
                         .tokens = 24576,
                         .loss = 5.25,
                         .channel_loss = {{"zh", 6.0}, {"en", 0.1}},
                         .grad_norm = 1e-7,
                         .lr = 3e-4,
                         .loss_scale = 65536,
                         .tokens_per_second = 1234.5,
                         .mfu = 0.25,
                         .step_seconds = 0.5,
                         .data_seconds = 0,
                         .comm_seconds = 0.125,
                         .peak_bytes = 1 << 30,
                         .world_size = 2,
                         .generation = 5};
  const std::string line =
      R"({"step":3,"tokens":24576,"loss":5.25,"channel_loss":{"zh":6.0,"en":0.1},"grad_norm":1e-07,"lr":3e-04,)"
      R"("loss_scale":65536.0,"tokens_per_second":1234.5,"mfu":0.25,"step_seconds":0.5,"data_seconds":0.0,)"
      R"("comm_seconds":0.125,"peak_bytes":1073741824,"world_size":2,"generation":5})";
  EXPECT_EQ(metrics_line(m), line);
  StepMetrics evaluated = m;
  evaluated.valid_loss = 4.5;
  evaluated.valid_channel_loss = {{"zh", 5.0}};
  EXPECT_EQ(metrics_line(evaluated),
            line.substr(0, line.size() - 1) + R"(,"valid_loss":4.5,"valid_channel_loss":{"zh":5.0}})");
}

TEST_F(Metrics, NumbersReadBackToTheSameBits) {
  std::vector<double> values = {0.0,
                                -0.0,
                                1.0,
                                0.1,
                                1e300,
                                5e-324,
                                1.7976931348623157e308,
                                static_cast<double>(0.1f),
                                9007199254740993.0,
                                123456789.0};
  for (uint64_t i = 0; i < 20000; ++i) {
    const Philox4 bits = philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, 7);
    values.push_back(std::bit_cast<double>(uint64_t{bits[0]} << 32 | bits[1]));
    values.push_back(static_cast<double>(std::bit_cast<float>(bits[2])));
  }
  for (const double value : values) {
    StepMetrics m = {.step = 1, .loss = value, .channel_loss = {{"c", value}}, .grad_norm = value};
    const StepMetrics back = parse_metrics_line(metrics_line(m));
    if (!std::isfinite(value)) {
      EXPECT_TRUE(std::isnan(back.loss));
      continue;
    }
    ASSERT_EQ(std::bit_cast<uint64_t>(back.loss), std::bit_cast<uint64_t>(value)) << json_number(value);
    ASSERT_EQ(std::bit_cast<uint64_t>(back.channel_loss[0].second), std::bit_cast<uint64_t>(value));
    ASSERT_TRUE(nlohmann::json::parse(json_number(value)).is_number_float()) << json_number(value);
  }
}

TEST_F(Metrics, NanAndInfinityAreNull) {
  EXPECT_EQ(json_number(std::numeric_limits<double>::quiet_NaN()), "null");
  EXPECT_EQ(json_number(-std::numeric_limits<double>::infinity()), "null");
  const StepMetrics back = parse_metrics_line(
      metrics_line({.step = 1, .channel_loss = {{"a", std::nan("")}}, .valid_loss = std::nan("")}));
  EXPECT_TRUE(std::isnan(back.channel_loss.at(0).second));
  EXPECT_TRUE(std::isnan(back.valid_loss.value()));
}

TEST_F(Metrics, ChannelNamesAreEscaped) {
  const std::string name = "q\"\\\n中";
  EXPECT_EQ(
      parse_metrics_line(metrics_line({.step = 1, .channel_loss = {{name, 2.0}}})).channel_loss.at(0).first,
      name);
  EXPECT_NO_THROW(parse_metrics_line(metrics_line({.step = 1, .channel_loss = {{"\xff", 2.0}}})));
}

TEST_F(Metrics, EveryStepIsInTheFileAtOnce) {
  MetricsWriter writer(system_env(), path_, 0);
  writer.write({.step = 1});
  EXPECT_EQ(read_metrics(system_env(), path_).size(), 1u);
  writer.write({.step = 2});
  EXPECT_EQ(read_metrics(system_env(), path_).size(), 2u);
  EXPECT_THROW(writer.write({.step = 2}), Error);
  EXPECT_THROW(writer.write({.step = 1}), Error);
  EXPECT_EQ(writer.last_step(), 2);
}

TEST_F(Metrics, ResumeCutsBackAndContinues) {
  write_steps(1, 10, 0);
  const std::string undisturbed = text();
  write_steps(8, 10, 7);
  EXPECT_EQ(text(), undisturbed);
  const auto all = read_metrics(system_env(), path_);
  ASSERT_EQ(all.size(), 10u);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].step, static_cast<int64_t>(i) + 1);
  write_steps(1, 2, 0);  // a new run starts afresh
  EXPECT_EQ(read_metrics(system_env(), path_).size(), 2u);
}

// Killed at any byte, with any checkpoint: the resumed file is the undisturbed one.
TEST_F(Metrics, ATornLineIsDroppedAtEveryByte) {
  write_steps(1, 4, 0);
  const std::string undisturbed = text();
  for (size_t size = 0; size <= undisturbed.size(); ++size) {
    env_.write_atomically(path_, std::string_view(undisturbed).substr(0, size));
    MetricsWriter probe(env_, path_, 4);
    const int64_t last = probe.last_step();
    EXPECT_EQ(text(), undisturbed.substr(0, text().size()));
    write_steps(last + 1, 4, last);
    ASSERT_EQ(text(), undisturbed) << "cut at " << size;
  }
}

// After a power cut a file system may leave zeros or old bytes where the last lines were.
TEST_F(Metrics, RubbishAtTheEndIsDropped) {
  write_steps(1, 3, 0);
  const std::string good = text();
  for (const std::string& rubbish :
       {std::string(4096, '\0') + "\n", std::string("{\"step\":2,\"x\":1}\n"),
        std::string("hello\n{\"step\":4}\n"), std::string("{\"step\":-5,}\n"),
        std::string("{\"step\":99999999999999999999,}\n"), std::string("\n\n")}) {
    env_.write_atomically(path_, good + rubbish);
    MetricsWriter writer(env_, path_, 100);
    EXPECT_EQ(writer.last_step(), 3);
    EXPECT_EQ(text(), good);
  }
}

TEST_F(Metrics, AFullDiskLeavesTheOldFile) {
  write_steps(1, 10, 0);
  const std::string before = text();
  FullDiskEnv env(100);
  EXPECT_THROW(MetricsWriter(env, path_, 5), IoError);
  EXPECT_EQ(text(), before);
}

TEST_F(Metrics, ReaderNamesTheBrokenLine) {
  write_steps(1, 2, 0);
  system_env().write_atomically(path_, text() + "{\"step\":3}\n");
  try {
    read_metrics(system_env(), path_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("metrics.jsonl:3"), std::string::npos) << error.what();
  }
  for (const std::string line : {"", "[]", "null", "{}", "{\"step\":\"x\"}", "\xff"})
    EXPECT_THROW(parse_metrics_line(line), Error) << line;
}

}  // namespace
}  // namespace athanor::tests::metrics_test
