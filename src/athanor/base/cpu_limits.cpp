#include "athanor/base/cpu_limits.h"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "athanor/base/cgroup.h"

namespace athanor::base {
namespace {

// Processors that a group grants; none where it does not limit them.
std::optional<double> quota_of(const CgroupFolder& group) {
  uint64_t quota = 0, period = 0;
  if (group.version == 1) {  // a quota of -1: none
    quota = group.number("cpu.cfs_quota_us").value_or(0);
    period = group.number("cpu.cfs_period_us").value_or(0);
  } else if (const auto line = group.text("cpu.max")) {  // "max 100000", "50000 100000"
    std::istringstream(*line) >> quota >> period;
  }
  if (quota == 0 || period == 0) return std::nullopt;
  return static_cast<double>(quota) / static_cast<double>(period);
}

int processors_by_affinity() {
  constexpr int kMost = 1 << 16;
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(kMost),
                                                             [](cpu_set_t* old) { CPU_FREE(old); });
  const size_t bytes = CPU_ALLOC_SIZE(kMost);
  CPU_ZERO_S(bytes, set.get());
  return ::sched_getaffinity(0, bytes, set.get()) == 0 ? CPU_COUNT_S(bytes, set.get()) : 1;
}

}  // namespace

int CpuLimits::usable() const {
  return std::max(1, quota > 0.0 ? std::min(affinity, static_cast<int>(quota)) : affinity);
}

std::string CpuLimits::text() const {
  if (quota <= 0.0) return fmt::format("{} usable", usable());
  return fmt::format("{} usable: a quota of {:g} in control group {}, {} by affinity", usable(), quota, group,
                     affinity);
}

CpuLimits read_cpu_limits(const std::string& root) {
  return read_cpu_limits(root, processors_by_affinity());
}

CpuLimits read_cpu_limits(const std::string& root, int affinity) {
  CpuLimits limits{.affinity = std::max(1, affinity), .quota = 0.0, .group = ""};
  double tightest = limits.affinity;
  for (const CgroupFolder& group : cgroup_folders(root, "cpu")) {
    const auto quota = quota_of(group);
    if (!quota || *quota >= tightest) continue;
    tightest = limits.quota = *quota;
    limits.group = group.name;
  }
  return limits;
}

}  // namespace athanor::base
