#include "athanor/base/host_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>

#include "athanor/base/cgroup.h"

namespace athanor::base {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// Of a line "MemAvailable:    1024 kB".
uint64_t meminfo_bytes(const std::string& root, const std::string& key) {
  std::ifstream in(root + "/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const size_t first = std::min(line.size(), line.find_first_not_of(" \t", key.size()));
    uint64_t value = 0;
    std::from_chars(line.data() + first, line.data() + line.size(), value);
    return value * 1024;
  }
  return 0;
}

// Memory that the processes of a group may still take. Cached files count as used but are dropped on demand.
uint64_t left_in(const CgroupFolder& group) {
  const bool old = group.version == 1;
  // memory.high is not refused but slows a process down to a crawl; a version 1 group may lie in one that is not
  // mounted.
  const auto limit =
      std::min(group.number(old ? "memory.limit_in_bytes" : "memory.max").value_or(kUnlimited),
               (old ? group.entry("memory.stat", "hierarchical_memory_limit") : group.number("memory.high"))
                   .value_or(kUnlimited));
  if (limit == kUnlimited) return kUnlimited;
  const uint64_t used = group.number(old ? "memory.usage_in_bytes" : "memory.current").value_or(0);
  auto cached = group.entry("memory.stat", "total_inactive_file");  // version 1: with the groups within
  if (!cached) cached = group.entry("memory.stat", "inactive_file");
  return limit - std::min(limit, used - std::min(used, cached.value_or(0)));
}

}  // namespace

AvailableMemory available_memory(const std::string& root) {
  AvailableMemory memory;
  const uint64_t available = meminfo_bytes(root, "MemAvailable:");
  if (available == 0) return memory;
  memory.bytes = available + meminfo_bytes(root, "SwapFree:");
  for (const CgroupFolder& group : cgroup_folders(root, "memory")) {
    const uint64_t left = left_in(group);
    if (left >= memory.bytes) continue;
    memory.bytes = left;
    memory.group = group.name;
  }
  return memory;
}

uint64_t available_memory_bytes(const std::string& root) {
  return available_memory(root).bytes;
}

}  // namespace athanor::base
