#include "athanor/base/cpu_limits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "support/temporary_folder.h"

namespace athanor::tests::cpu_limits_test {
namespace {

// The files of machines and containers, as recorded, and what they leave of 8 processors.
struct Machine {
  const char* what;
  std::map<std::string, std::string> files;
  int usable;
  double quota;
  std::string group;
};

const Machine kMachines[] = {
    {"nothing is said", {}, 8, 0, ""},
    {"version 2: no limit",
     {{"/proc/self/cgroup", "0::/user.slice\n"}, {"/sys/fs/cgroup/user.slice/cpu.max", "max 100000\n"}},
     8,
     0,
     ""},
    {"version 2 in a container of its own name space: half a CPU",
     {{"/proc/self/cgroup", "0::/\n"},
      {"/proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n"},
      {"/sys/fs/cgroup/cpu.max", "50000 100000\n"}},
     1,
     0.5,
     "/"},
    {"version 2: the outer group is tighter, in other periods",
     {{"/proc/self/cgroup", "0::/slurm/job_7/step_0\n"},
      {"/sys/fs/cgroup/slurm/job_7/step_0/cpu.max", "max 100000\n"},
      {"/sys/fs/cgroup/slurm/job_7/cpu.max", "600000 100000\n"},
      {"/sys/fs/cgroup/slurm/cpu.max", "150000 50000\n"}},
     3,
     3,
     "/slurm"},
    {"version 2: a quota above the affinity rules nothing",
     {{"/proc/self/cgroup", "0::/a\n"}, {"/sys/fs/cgroup/a/cpu.max", "1600000 100000\n"}},
     8,
     0,
     ""},
    {"version 2: a part of a processor is no further thread",
     {{"/proc/self/cgroup", "0::/a\n"}, {"/sys/fs/cgroup/a/cpu.max", "270000 100000\n"}},
     2,
     2.7,
     "/a"},
    {"version 2: the kernel leaves the period out of a file that a person wrote",
     {{"/proc/self/cgroup", "0::/a\n"}, {"/sys/fs/cgroup/a/cpu.max", "max\n"}},
     8,
     0,
     ""},
    {"version 1: cpu and cpuacct together",
     {{"/proc/self/cgroup", "11:cpu,cpuacct:/x/y\n5:memory:/x\n0::/\n"},
      {"/proc/self/mountinfo",
       "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/x/y/cpu.cfs_quota_us", "-1\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/x/y/cpu.cfs_period_us", "100000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "400000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n"}},
     4,
     4,
     "/x"},
    {"version 1 without mountinfo",
     {{"/proc/self/cgroup", "4:cpu:/job\n"},
      {"/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000\n"},
      {"/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n"}},
     1,
     0.5,
     "/job"},
    {"version 1: docker mounts the container's own group at an unusual place",
     {{"/proc/self/cgroup", "4:cpu:/docker/abc\n"},
      {"/proc/self/mountinfo", "33 32 0:30 /docker/abc /cgroup/cpu ro - cgroup cgroup rw,cpu\n"},
      {"/cgroup/cpu/cpu.cfs_quota_us", "200000\n"},
      {"/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
     2,
     2,
     "/docker/abc"},
    {"a group outside of what is mounted is the mounted one",
     {{"/proc/self/cgroup", "0::/../other\n"},
      {"/proc/self/mountinfo", "29 23 0:26 /../.. /sys/fs/cgroup ro - cgroup2 cgroup rw\n"},
      {"/sys/fs/cgroup/cpu.max", "100000 100000\n"}},
     1,
     1,
     "/"},
    {"hybrid: version 2 beside, without controllers",
     {{"/proc/self/cgroup", "4:cpu:/\n0::/x\n"},
      {"/proc/self/mountinfo",
       "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n41 31 0:38 / /sys/fs/cgroup/unified rw - "
       "cgroup2 cgroup2 rw\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "600000\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"},
      {"/sys/fs/cgroup/unified/x/cpu.max", "max 100000\n"}},
     6,
     6,
     "/"},
    {"the mount that shows the group is taken of two",
     {{"/proc/self/cgroup", "0::/a/b\n"},
      {"/proc/self/mountinfo",
       "1 1 0:1 /other /mnt/o rw - cgroup2 c rw\n1 1 0:1 /a /mnt/a rw - cgroup2 c rw\n"},
      {"/mnt/o/cpu.max", "100000 100000\n"},
      {"/mnt/a/b/cpu.max", "500000 100000\n"}},
     5,
     5,
     "/a/b"},
};

TEST(CpuLimits, AreTheSmallerOfAffinityAndQuota) {
  for (const Machine& machine : kMachines) {
    const TemporaryFolder root;
    for (const auto& [path, text] : machine.files) {
      const std::filesystem::path full = root.path("") + path;
      std::filesystem::create_directories(full.parent_path());
      std::ofstream(full) << text;
    }
    const CpuLimits limits = read_cpu_limits(root.path(""), 8);
    EXPECT_EQ(limits.usable(), machine.usable) << machine.what;
    EXPECT_DOUBLE_EQ(limits.quota, machine.quota) << machine.what;
    EXPECT_EQ(limits.group, machine.group) << machine.what;
  }
}

TEST(CpuLimits, SayWhichOneRules) {
  EXPECT_EQ((CpuLimits{.affinity = 4, .quota = 0.0, .group = ""}).text(), "4 usable");
  EXPECT_EQ((CpuLimits{.affinity = 8, .quota = 0.5, .group = "/job"}).text(),
            "1 usable: a quota of 0.5 in control group /job, 8 by affinity");
  EXPECT_GE(read_cpu_limits().usable(), 1);
}

}  // namespace
}  // namespace athanor::tests::cpu_limits_test
