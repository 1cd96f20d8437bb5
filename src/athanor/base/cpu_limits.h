// How many processors this process may keep busy: the smaller of its CPU affinity (taskset, cpusets, batch systems) and
// the CPU time that its control groups grant (a quota of 2.5 is two and a half processors). If a process runs more
// threads than its quota, the system pauses it for the rest of each period.
//
//   const CpuLimits limits = read_cpu_limits();
//   ThreadPool pool(limits.usable());          // at least 1; a fractional quota is rounded down
//
// `root` is the folder under which /proc and /sys lie; tests pass their own. Thread rule: pure functions of files and
// of the calling thread's affinity.
#pragma once

#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::base {

struct CpuLimits {
  int affinity = 1;    // processors that the thread may run on
  double quota = 0.0;  // of the tightest group, in processors, if below the affinity; 0: none
  std::string group;   // the name of the tightest group

  int usable() const;
  std::string text() const;  // "2 usable", "1 usable: a quota of 0.5 in control group /job, 8 by affinity"
};

CpuLimits read_cpu_limits(const std::string& root = "");
// The same with an affinity that the caller gives.
CpuLimits read_cpu_limits(const std::string& root, int affinity);

}  // namespace athanor::base
