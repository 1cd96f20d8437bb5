#include "athanor/base/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <utility>

namespace athanor::base {
namespace {

struct CgroupMount {
  int version = 2;
  std::string controllers;  // of version 1: "rw,cpu,cpuacct"
  std::string group;        // what is mounted: "/", or the container's own
  std::string folder;
};

bool has_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

// \040 is a space.
std::string unescaped(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    const bool escaped = text[i] == '\\' && i + 3 < text.size() &&
                         std::from_chars(&text[i + 1], &text[i + 1] + 3, code, 8).ptr == &text[i + 1] + 3;
    result += escaped ? static_cast<char>(code) : text[i];
    if (escaped) i += 3;
  }
  return result;
}

// 32 31 0:29 /group /sys/fs/cgroup/cpu rw,relatime shared:1 - cgroup cgroup rw,cpu
std::vector<CgroupMount> read_mounts(const std::string& root) {
  std::vector<CgroupMount> mounts;
  std::ifstream in(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string skip, group, folder, type, source, options;
    words >> skip >> skip >> skip >> group >> folder;
    while (words >> skip && skip != "-") {
    }
    words >> type >> source >> options;
    if (type == "cgroup2") mounts.push_back({2, "", unescaped(group), unescaped(folder)});
    if (type == "cgroup") mounts.push_back({1, options, unescaped(group), unescaped(folder)});
  }
  if (!mounts.empty()) return mounts;
  for (const char* controller : {"cpu", "memory"})
    mounts.push_back({1, controller, "/", std::string("/sys/fs/cgroup/") + controller});
  mounts.push_back({2, "", "/", "/sys/fs/cgroup"});
  return mounts;
}

bool lies_in(const std::string& group, const std::string& outer) {
  return outer == "/" || group == outer || group.starts_with(outer + "/");
}

// The path of `group` below the mount. A group outside of the mounted tree belongs to a container without a cgroup
// namespace: the mounted group is then its own.
std::string below(const CgroupMount& mount, const std::string& group) {
  const std::string outer = mount.group.starts_with("/..") ? "/" : mount.group;
  if (!lies_in(group, outer) || group.starts_with("/..")) return "";
  const std::string path = outer == "/" ? group : group.substr(outer.size());
  return path == "/" ? "" : path;
}

std::optional<uint64_t> parse_natural(const std::string& text) {
  const size_t first = std::min(text.size(), text.find_first_not_of(" \t"));
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + first, text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

void add_folders(const std::string& root, const CgroupMount& mount, const std::string& group,
                 std::vector<CgroupFolder>& folders) {
  const std::string named = mount.group == "/" || mount.group.starts_with("/..") ? "" : mount.group;
  for (std::string path = below(mount, group);; path.erase(path.rfind('/'))) {
    const std::string name = named + path;
    std::string folder = root + mount.folder;
    folder += path;
    folders.push_back({mount.version, std::move(folder), name.empty() ? "/" : name});
    if (path.empty()) return;
  }
}

}  // namespace

std::optional<std::string> CgroupFolder::text(const std::string& file) const {
  std::ifstream in(path + "/" + file);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return line;
}

std::optional<uint64_t> CgroupFolder::number(const std::string& file) const {
  const auto line = text(file);
  return line ? parse_natural(*line) : std::nullopt;
}

std::optional<uint64_t> CgroupFolder::entry(const std::string& file, const std::string& key) const {
  std::ifstream in(path + "/" + file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key + " ")) return parse_natural(line.substr(key.size()));
  return std::nullopt;
}

std::vector<CgroupFolder> cgroup_folders(const std::string& root, const std::string& controller) {
  const std::vector<CgroupMount> mounts = read_mounts(root);
  std::vector<CgroupFolder> folders;
  std::ifstream in(root + "/proc/self/cgroup");  // "0::/a/b", "5:memory:/a/b", "4:cpu,cpuacct:/a/b"
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      group = line.substr(second + 1);
    if (!controllers.empty() && !has_word(controllers, controller)) continue;
    const int version = controllers.empty() ? 2 : 1;
    // Of several mounts one that shows the group itself.
    const CgroupMount* mount = nullptr;
    for (const CgroupMount& each : mounts) {
      if (each.version != version || (version == 1 && !has_word(each.controllers, controller))) continue;
      if (mount == nullptr || (!lies_in(group, mount->group) && lies_in(group, each.group))) mount = &each;
    }
    if (mount != nullptr) add_folders(root, *mount, group, folders);
  }
  return folders;
}

}  // namespace athanor::base
