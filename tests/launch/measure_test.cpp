// What a rank measures in the warm-up: figures that can be, and failures with their path and reason.
#include "athanor/launch/warm_up/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/launch/warm_up/disk.h"
#include "athanor/launch/warm_up/memory.h"
#include "support/fault_env.h"
#include "support/temporary_folder.h"

namespace athanor::tests::measure_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

MeasureOptions in(const std::string& folder, Env& env) {
  return {.matrix_product = {.threads = 2, .isa = best_isa()}, .run_folder = folder, .rank = 1, .env = &env};
}

TEST(Measure, HasAFigureForEachAndLeavesNothing) {
  const TemporaryFolder folder;
  const control::WarmedUp measured = measure(in(folder.path(""), system_env()));
  EXPECT_GT(measured.matrix_gflop_per_s, 0);
  EXPECT_GT(measured.memory_gb_per_s, 0);
  EXPECT_GT(measured.disk_mb_per_s, 0);
  EXPECT_EQ(measured.refusal + measured.warning + measured.hint, "");
  EXPECT_TRUE(fs::is_empty(folder.path("")));
}

TEST(Measure, AFolderThatIsNotThereIsNotMade) {
  const TemporaryFolder folder;
  EXPECT_EQ(measure(in(folder.path("runs/t"), system_env())).refusal, "");
  EXPECT_TRUE(fs::is_empty(folder.path("")));
}

// Whichever of its calls fails, it is a refusal, and no file is left.
TEST(Measure, AFullDiskIsARefusal) {
  const TemporaryFolder folder;
  FaultEnv whole(/*fail_at=*/1000);
  EXPECT_EQ(measure(in(folder.path(""), whole)).refusal, "");
  ASSERT_GE(whole.calls(), 4);
  for (int64_t call = 0; call < whole.calls(); ++call) {
    FaultEnv env(call);
    const control::WarmedUp measured = measure(in(folder.path(""), env));
    EXPECT_EQ(measured.refusal, "injected fault") << call;
    EXPECT_THAT(measured.hint, AllOf(HasSubstr("make room"), HasSubstr(folder.path("")))) << call;
    EXPECT_GT(measured.matrix_gflop_per_s, 0);
    EXPECT_EQ(fs::remove(folder.path(".warm_up.rank1")), call + 1 == whole.calls())
        << "but for the call that could not remove it: " << call;
  }
}

// Writes and syncs well, and gives back other bytes.
class ForgetfulEnv final : public FaultEnv {
 public:
  std::unique_ptr<ReadableFile> open(const std::string& path) override {
    return std::make_unique<File>(system_env().open(path));
  }

 private:
  struct File final : ReadableFile {
    explicit File(std::unique_ptr<ReadableFile> of) : file(std::move(of)) {}
    uint64_t size_bytes() const override { return file->size_bytes(); }
    void read(uint64_t offset, void* data, size_t size_bytes) const override {
      file->read(offset, data, size_bytes);
      static_cast<char*>(data)[size_bytes - 1] ^= 1;
    }
    std::unique_ptr<ReadableFile> file;
  };
};

TEST(Measure, OtherBytesAreARefusal) {
  const TemporaryFolder folder;
  ForgetfulEnv env;
  const control::WarmedUp measured = measure(in(folder.path(""), env));
  EXPECT_THAT(measured.refusal, AllOf(HasSubstr(folder.path(".warm_up.rank1")),
                                      HasSubstr("other bytes were read than had been written")));
  EXPECT_THAT(measured.hint, HasSubstr("dmesg"));
  EXPECT_TRUE(fs::is_empty(folder.path("")));
}

TEST(Measure, AFolderThatIsNoneIsARefusalInWords) {
  EXPECT_THAT(measure(in("/proc/self", system_env())).refusal, HasSubstr("/proc/self/.warm_up.rank1"));
}

// In a process of its own, whose limit does not matter to the others.
TEST(Measure, MemoryThatTheSystemRefusesIsNamedWithItsLimit) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{8} << 20);
    const rlimit few{most, most};
    setrlimit(RLIMIT_AS, &few);
    std::string said = "measured";
    int code = 0;
    try {
      measure_memory();
    } catch (const IoError& error) {
      said = error.what();
      code = error.code();
    }
    _exit(write(ends[1], said.data(), said.size()) > 0 ? code : 99);
  }
  close(ends[1]);
  char said[500];
  const ssize_t length = read(ends[0], said, sizeof(said));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_GT(length, 0);
  EXPECT_EQ(WEXITSTATUS(status), ENOMEM);
  EXPECT_THAT(std::string(said, static_cast<size_t>(length)),
              AllOf(HasSubstr("no memory for 32.0 MiB: Cannot allocate memory; the process may have "),
                    HasSubstr("(RLIMIT_AS, ulimit -v)")));
}

}  // namespace
}  // namespace athanor::tests::measure_test
