#include "athanor/base/file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "athanor/base/error.h"

namespace athanor {
namespace {

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / "athanor_file_test_XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
  Env& env_ = system_env();
};

TEST_F(FileTest, WritesAndReadsBack) {
  const std::string path = join_path(folder_, "a.txt");
  env_.write_atomically(path, "hello");
  EXPECT_EQ(env_.read_text(path), "hello");
  const auto more = env_.append_to(path);
  more->append(" world");
  more->close();
  EXPECT_EQ(env_.read_text(path), "hello world");
  EXPECT_EQ(env_.list(folder_), std::vector<std::string>{"a.txt"});
}

TEST_F(FileTest, ErrorsNameThePath) {
  try {
    env_.read_text(join_path(folder_, "missing"));
    FAIL() << "expected an IoError";
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("missing"), std::string::npos);
    EXPECT_EQ(error.code(), ENOENT);
  }
}

TEST_F(FileTest, ReadingPastTheEndAndAboveTheLimitFail) {
  const std::string path = join_path(folder_, "a.txt");
  env_.write_atomically(path, "hello");
  char buffer[10];
  EXPECT_THROW(env_.open(path)->read(0, buffer, 10), IoError);
  EXPECT_THROW(env_.read_text(path, 4), Error);
}

TEST_F(FileTest, FullDiskIsAnIoError) {
  const auto full = env_.append_to("/dev/full");
  full->append("x");
  EXPECT_THROW(full->flush(), IoError);
}

TEST_F(FileTest, MapsAFile) {
  const std::string path = join_path(folder_, "a.txt");
  env_.write_atomically(path, "hello");
  const MappedFile mapped(path);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(mapped.data()), mapped.size_bytes()), "hello");
}

}  // namespace
}  // namespace athanor
