#include "athanor/base/host_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>

namespace athanor {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

std::optional<uint64_t> parse_number(const std::string& text) {
  const char* first = text.data() + std::min(text.size(), text.find_first_not_of(" \t"));
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(first, text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<uint64_t> read_number(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return parse_number(line);  // none: "max"
}

// The number behind `key` on a line of its own.
uint64_t read_entry(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return parse_number(line.substr(key.size())).value_or(0);
  return 0;
}

struct GroupFiles {
  const char *folder, *limit, *used;
};
constexpr GroupFiles kVersion2{"/sys/fs/cgroup", "/memory.max", "/memory.current"};
constexpr GroupFiles kVersion1{"/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes"};

// A group and all it lies in limit what its processes hold. Cached files count as used but are given up on demand.
uint64_t left_in_groups(const std::string& root, const GroupFiles& files, std::string group) {
  uint64_t left = kUnlimited;
  while (true) {
    const std::string folder = root + files.folder + (group == "/" ? "" : group);
    if (const auto limit = read_number(folder + files.limit)) {
      const uint64_t used = read_number(folder + files.used).value_or(0);
      const uint64_t cached = std::min(used, read_entry(folder + "/memory.stat", "inactive_file "));
      left = std::min(left, *limit - std::min(*limit, used - cached));
    }
    if (group.size() <= 1) return left;
    const size_t slash = group.rfind('/');
    group = slash == 0 || slash == std::string::npos ? "/" : group.substr(0, slash);
  }
}

}  // namespace

uint64_t available_memory_bytes(const std::string& root) {
  const std::string meminfo = root + "/proc/meminfo";
  const uint64_t available = read_entry(meminfo, "MemAvailable:");
  if (available == 0) return 0;
  uint64_t left = (available + read_entry(meminfo, "SwapFree:")) * 1024;
  std::ifstream in(root + "/proc/self/cgroup");  // "0::/a/b", "5:memory:/a/b", "4:cpu,cpuacct:/a/b"
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") left = std::min(left, left_in_groups(root, kVersion2, group));
    if (controllers.find(",memory,") != std::string::npos)
      left = std::min(left, left_in_groups(root, kVersion1, group));
  }
  return left;
}

}  // namespace athanor
