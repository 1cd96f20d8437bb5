#include "athanor/base/host_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace athanor::tests::host_memory_test {
namespace {

// A machine with 1000 MiB available and 24 MiB of swap, whose control groups the tests write.
class HostMemoryTest : public ::testing::Test {
 protected:
  HostMemoryTest() {
    std::string folder = (std::filesystem::temp_directory_path() / "athanor_host_memory_XXXXXX").string();
    root_ = ::mkdtemp(folder.data());  // tests run side by side
    write("/proc/meminfo", "MemTotal: 2048000 kB\nMemAvailable:    1024000 kB\nSwapFree:   24576 kB\n");
  }
  ~HostMemoryTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_.string() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  double mebibytes() const { return static_cast<double>(available_memory_bytes(root_.string())) / (1 << 20); }

  std::filesystem::path root_;
};

TEST_F(HostMemoryTest, IsThatOfTheMachineWithoutGroups) {
  EXPECT_EQ(mebibytes(), 1024);
}

TEST_F(HostMemoryTest, IsUnknownWhereTheMachineDoesNotSay) {
  write("/proc/meminfo", "MemTotal: 5 kB\n");
  EXPECT_EQ(mebibytes(), 0);
}

TEST_F(HostMemoryTest, StopsAtTheTightestGroupOfVersion2) {
  write("/proc/self/cgroup", "0::/slice/job\n");
  write("/sys/fs/cgroup/slice/job/memory.max", "max\n");
  write("/sys/fs/cgroup/slice/job/memory.current", "104857600\n");
  EXPECT_EQ(mebibytes(), 1024);
  write("/sys/fs/cgroup/slice/memory.max", "314572800\n");
  write("/sys/fs/cgroup/slice/memory.current", "209715200\n");
  EXPECT_EQ(mebibytes(), 100);
  write("/sys/fs/cgroup/slice/memory.stat", "anon 5\ninactive_file 52428800\nactive_file 7\n");
  EXPECT_EQ(mebibytes(), 150) << "cached files are given up";
  write("/sys/fs/cgroup/slice/memory.current", "400000000\n");
  write("/sys/fs/cgroup/slice/memory.stat", "inactive_file 0\n");
  EXPECT_EQ(mebibytes(), 0) << "over its limit";
}

TEST_F(HostMemoryTest, SeesTheRootOfItsOwnNamespace) {
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", "104857600\n");
  write("/sys/fs/cgroup/memory.current", "0\n");
  EXPECT_EQ(mebibytes(), 100);
}

TEST_F(HostMemoryTest, StopsAtTheGroupOfVersion1) {
  write("/proc/self/cgroup", "11:cpu,cpuacct:/x\n5:memory:/docker/abc\n0::/\n");
  write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "209715200\n");
  write("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "104857600\n");
  EXPECT_EQ(mebibytes(), 100);
  write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(mebibytes(), 1024);
}

TEST_F(HostMemoryTest, CountsWhatSlowsAProcessDownAndNamesTheGroup) {
  write("/proc/self/cgroup", "0::/pod/main\n");
  write("/sys/fs/cgroup/pod/memory.max", "629145600\n");
  write("/sys/fs/cgroup/pod/memory.high", "314572800\n");
  EXPECT_EQ(mebibytes(), 300);
  EXPECT_EQ(available_memory(root_.string()).group, "/pod");
}

TEST_F(HostMemoryTest, KnowsTheLimitsOfGroupsThatAreNotMounted) {
  write("/proc/self/cgroup", "5:memory:/docker/abc\n");
  write("/proc/self/mountinfo", "35 31 0:32 /docker/abc /cg\\040roups/memory ro - cgroup cgroup rw,memory\n");
  const std::string folder = "/cg roups/memory";
  write(folder + "/memory.limit_in_bytes", "9223372036854771712\n");
  write(folder + "/memory.usage_in_bytes", "104857600\n");
  write(folder + "/memory.stat",
        "inactive_file 0\nhierarchical_memory_limit 209715200\ntotal_inactive_file 52428800\n");
  EXPECT_EQ(mebibytes(), 150);
  EXPECT_EQ(available_memory(root_.string()).group, "/docker/abc");
}

}  // namespace
}  // namespace athanor::tests::host_memory_test
