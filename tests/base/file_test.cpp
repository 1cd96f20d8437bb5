#include "athanor/base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "athanor/base/error.h"
#include "support/fault_env.h"

namespace athanor::tests::file_test {
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

TEST_F(FileTest, AFailedAtomicWriteLeavesNothingBehind) {
  const std::string path = join_path(folder_, "a.txt");
  int64_t fail_at = 0;
  for (bool failed = true; failed; ++fail_at) {
    env_.write_atomically(path, "old");
    FaultEnv broken(fail_at);
    bool thrown = false;
    try {
      broken.write_atomically(path, "the new one");
    } catch (const IoError& error) {
      thrown = true;
      EXPECT_EQ(error.code(), ENOSPC);
    }
    failed = broken.failed();
    EXPECT_EQ(thrown, failed) << "call " << fail_at;
    EXPECT_EQ(env_.list(folder_), std::vector<std::string>{"a.txt"}) << "call " << fail_at;
    const std::string text = env_.read_text(path);
    EXPECT_TRUE(text == "the new one" || (failed && text == "old")) << "call " << fail_at << ": " << text;
  }
  EXPECT_GE(fail_at, 6);  // create, append, sync, close, rename, the folder, and once without a fault
}

TEST_F(FileTest, LargeFilesHoldWhatWasAppended) {
  constexpr size_t kMiB = size_t{1} << 20;
  std::string all(20 * kMiB + 12345, '\0');
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i * i >> 7);
  const std::string path = join_path(folder_, "large");
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, 8 * kMiB - 1,
                            8 * kMiB, 16 * kMiB, 16 * kMiB + 4097, all.size()}) {
    const std::string_view whole = std::string_view(all).substr(0, size);
    for (const size_t piece : {size_t{70001}, 3 * kMiB, 21 * kMiB}) {
      const auto file = env_.create_large(path);
      for (size_t done = 0; done < size; done += piece) file->append(whole.substr(done, piece));
      file->sync();
      EXPECT_EQ(env_.open(path)->size_bytes(), size);
      file->append("and more");
      file->close();
      file->close();
      EXPECT_TRUE(env_.read_text(path) == std::string(whole) + "and more") << size << " in " << piece;
    }
  }
  env_.create_large(path)->append("closed by the destructor");
  EXPECT_EQ(env_.read_text(path), "closed by the destructor");
}

TEST_F(FileTest, LargeFilesReportTheFailedWriteLaterAndOften) {
  const auto full = env_.create_large("/dev/full");
  const std::string piece(size_t{5} << 20, 'x');
  EXPECT_THROW(
      {
        for (int i = 0; i < 8; ++i) full->append(piece);  // more than the buffers hold
      },
      IoError);
  EXPECT_THROW(full->flush(), IoError);
  EXPECT_THROW(full->sync(), IoError);
  EXPECT_THROW(full->close(), IoError);
  const auto small = env_.create_large("/dev/full");
  small->append("x");
  EXPECT_THROW(small->close(), IoError);
  EXPECT_THROW(env_.create_large(join_path(folder_, "no/such/folder")), IoError);
}

TEST_F(FileTest, PipesAreReadAsAWhole) {
  const std::string path = join_path(folder_, "pipe"), text(200'000, 'p');
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] {
    const auto pipe = env_.append_to(path);
    pipe->append(text);
    pipe->close();
  });
  const auto file = env_.open(path);
  writer.join();
  ASSERT_EQ(file->size_bytes(), text.size());
  std::string got(1000, '\0');
  file->read(text.size() - got.size(), got.data(), got.size());
  EXPECT_EQ(got, text.substr(0, got.size()));
  EXPECT_THROW(file->read(text.size() - 1, got.data(), 2), IoError);
}

TEST_F(FileTest, MapsAFile) {
  const std::string path = join_path(folder_, "a.txt");
  env_.write_atomically(path, "hello");
  const MappedFile mapped(path);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(mapped.data()), mapped.size_bytes()), "hello");
}

}  // namespace
}  // namespace athanor::tests::file_test
