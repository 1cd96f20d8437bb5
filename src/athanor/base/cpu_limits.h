// How many processors this process may keep busy: the smaller of those it may run on (affinity: taskset, cpusets, batch
// systems) and the CPU time that its control groups grant (a quota of 2.5 is two and a half processors). More threads than
// that are stopped for the rest of a period while the others wait for them.
//
//   const CpuLimits limits = read_cpu_limits();
//   ThreadPool pool(limits.usable());          // at least 1, a broken quota rounded down
//
// `root` is the folder under which /proc and /sys lie; tests give their own. Thread rule: pure functions of files and of
// the calling thread's affinity.
#pragma once

#include <string>

namespace athanor {

struct CpuLimits {
  int affinity = 1;    // processors that the thread may run on
  double quota = 0.0;  // of the tightest group, where it is below the affinity; 0: none
  std::string group;   // that group

  int usable() const;
  std::string text() const;  // "2 usable", "1 usable: a quota of 0.5 in control group /job, 8 by affinity"
};

CpuLimits read_cpu_limits(const std::string& root = "");
// The same with an affinity of the caller's.
CpuLimits read_cpu_limits(const std::string& root, int affinity);

}  // namespace athanor
