#include "athanor/observe/tensorboard.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>

namespace athanor::tests::tensorboard_test {
namespace {

class TensorBoard : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/athanor_board_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

template <typename Value>
Value take(std::string_view& bytes) {
  Value value;
  EXPECT_GE(bytes.size(), sizeof(Value));
  std::memcpy(&value, bytes.data(), sizeof(Value));
  bytes.remove_prefix(sizeof(Value));
  return value;
}

std::vector<std::string> records(std::string_view file) {
  std::vector<std::string> all;
  while (!file.empty()) {
    const std::string_view header = file.substr(0, 8);
    const auto length = take<uint64_t>(file);
    EXPECT_EQ(take<uint32_t>(file), masked_crc32c(header));
    all.emplace_back(file.substr(0, length));
    file.remove_prefix(length);
    EXPECT_EQ(take<uint32_t>(file), masked_crc32c(all.back()));
  }
  return all;
}

uint64_t take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take<uint8_t>(bytes);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
}

// field number -> values as bytes, in order: a reader of its own, so that the writer is not tested by itself.
std::multimap<int, std::string> fields(std::string_view message) {
  std::multimap<int, std::string> all;
  while (!message.empty()) {
    const uint64_t key = take_varint(message);
    size_t size = 0;
    std::string value;
    switch (key & 7) {
      case 0:
        value = std::to_string(take_varint(message));
        break;
      case 1:
        size = 8;
        break;
      case 2:
        size = take_varint(message);
        break;
      case 5:
        size = 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return all;
    }
    value += message.substr(0, size);
    message.remove_prefix(size);
    all.emplace(static_cast<int>(key >> 3), value);
  }
  return all;
}

std::map<std::string, float> scalars_of(const std::string& event) {
  std::map<std::string, float> values;
  const auto event_fields = fields(event);
  const auto summary = fields(event_fields.find(5)->second);
  for (auto [it, end] = summary.equal_range(1); it != end; ++it) {
    const auto value = fields(it->second);
    std::string_view bits = value.find(2)->second;
    values[value.find(1)->second] = take<float>(bits);
  }
  return values;
}

TEST_F(TensorBoard, MaskedChecksumOfTheFormatsExample) {
  EXPECT_EQ(masked_crc32c(std::string_view("\x1a\x11"
                                           "CRC test, one two",
                                           19)),
            0x5794d08au);
}

// The first bytes of a file, written out by hand from the format.
TEST_F(TensorBoard, GoldenBytes) {
  TensorBoardWriter board(system_env(), folder_, {.wall_seconds = 1.5, .host = "node/7", .pid = 42});
  board.scalars({{"loss", 1.0f}}, 300, 2.0);
  board.flush();
  EXPECT_EQ(board.path(), folder_ + "/events.out.tfevents.0000000001.node_7.42.0");
  const auto all = records(system_env().read_text(board.path()));
  ASSERT_EQ(all.size(), 2u);
  using std::string_literals::operator""s;
  EXPECT_EQ(all[0],
            "\x09\0\0\0\0\0\0\xf8\x3f\x1a\x0d"
            "brain.Event:2"s);
  EXPECT_EQ(all[1],
            "\x09\0\0\0\0\0\0\0\x40\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04"
            "loss\x15\0\0\x80\x3f"s);
}

TEST_F(TensorBoard, TagsOfAStep) {
  TensorBoardWriter board(system_env(), folder_, {});
  StepMetrics m = {.step = 1LL << 40,
                   .loss = 5.5,
                   .channel_loss = {{"en", 5.0}, {"代码", 6.0}},
                   .grad_norm = 1.25,
                   .lr = 0.5,
                   .loss_scale = 1024,
                   .tokens_per_second = 2048,
                   .mfu = 0.25,
                   .step_seconds = 0.5,
                   .peak_bytes = 3LL << 29};
  board.write(m, 10.0);
  m.valid_loss = 4.5;
  m.valid_channel_loss = {{"en", 4.0}};
  board.write(m, 11.0);
  board.flush();
  const auto all = records(system_env().read_text(board.path()));
  ASSERT_EQ(all.size(), 3u);
  std::map<std::string, float> expected = {{"loss/train", 5.5f},
                                           {"loss_by_channel/en", 5.0f},
                                           {"loss_by_channel/代码", 6.0f},
                                           {"optimizer/grad_norm", 1.25f},
                                           {"optimizer/lr", 0.5f},
                                           {"optimizer/loss_scale", 1024.0f},
                                           {"speed/tokens_per_second", 2048.0f},
                                           {"speed/mfu_percent", 25.0f},
                                           {"speed/step_seconds", 0.5f},
                                           {"memory/peak_GiB", 1.5f}};
  EXPECT_EQ(scalars_of(all[1]), expected);
  EXPECT_EQ(fields(all[1]).find(2)->second, std::to_string(1LL << 40));
  expected["loss/valid"] = 4.5f;
  expected["loss_by_channel_valid/en"] = 4.0f;
  EXPECT_EQ(scalars_of(all[2]), expected);
}

// A scale that nothing is scaled by is no news; a first evaluation has no loss of training.
TEST_F(TensorBoard, OnlyWhatARunHas) {
  TensorBoardWriter board(system_env(), folder_, {});
  StepMetrics before;
  before.valid_loss = 9.5;
  before.valid_channel_loss = {{"en", 9.0}};
  board.write_validation(before, 10.0);
  board.write({.step = 1, .loss = 5.5}, 11.0);
  board.text("samples", "**The** end", 1, 12.0);
  board.flush();
  const auto all = records(system_env().read_text(board.path()));
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(scalars_of(all[1]),
            (std::map<std::string, float>{{"loss/valid", 9.5f}, {"loss_by_channel_valid/en", 9.0f}}));
  EXPECT_EQ(scalars_of(all[2]).count("optimizer/loss_scale"), 0u);
  const auto value = fields(fields(fields(all[3]).find(5)->second).find(1)->second);
  EXPECT_EQ(value.find(1)->second, "samples");
  const auto tensor = fields(value.find(8)->second);
  EXPECT_EQ(tensor.find(1)->second, "7");
  EXPECT_EQ(tensor.find(8)->second, "**The** end");
  EXPECT_EQ(fields(fields(value.find(9)->second).find(1)->second).find(1)->second, "text");
}

TEST_F(TensorBoard, AResumedRunStartsANewFileThatPurgesLaterSteps) {
  const TensorBoardId id = {.wall_seconds = 5, .host = "h", .pid = 1};
  TensorBoardWriter first(system_env(), folder_, id);
  TensorBoardWriter second(system_env(), folder_, id, 100);
  EXPECT_NE(first.path(), second.path());
  const auto all = records(system_env().read_text(second.path()));
  ASSERT_EQ(all.size(), 2u);
  const auto start = fields(all[1]);
  EXPECT_EQ(start.find(2)->second, "101");
  EXPECT_EQ(fields(start.find(7)->second).find(1)->second, "1");
}

}  // namespace
}  // namespace athanor::tests::tensorboard_test
