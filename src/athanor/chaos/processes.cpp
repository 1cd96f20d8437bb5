#include "athanor/chaos/processes.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace athanor::chaos {
namespace {

constexpr size_t kMostOfCommandLine = 120;

// "": it is gone, or goes while it is read, which an iterator over the stream would throw.
std::string proc_text(pid_t pid, const char* file) {
  const std::ifstream stream(fmt::format("/proc/{}/{}", pid, file), std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// -1: it is gone. The name before it may have any characters.
pid_t parent_of(pid_t pid) {
  const std::string status = proc_text(pid, "stat");
  const size_t name_end = status.rfind(')');
  pid_t parent = -1;
  if (name_end == std::string::npos || name_end + 4 >= status.size()) return -1;
  std::from_chars(status.data() + name_end + 4, status.data() + status.size(), parent);  // ") S 17"
  return parent;
}

}  // namespace

std::vector<pid_t> all_processes() {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (wrong == std::errc() && end == name.data() + name.size()) found.push_back(pid);
  }
  return found;
}

// Not by /proc/PID/task/*/children, which leaves some out while others end.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found = all_processes();
  std::erase_if(found, [&](pid_t pid) { return parent_of(pid) != parent; });
  return found;
}

std::string environment_of(pid_t pid) {
  const std::string text = proc_text(pid, "environ");
  return text.empty() ? "" : '\0' + text;
}

std::string command_line_of(pid_t pid) {
  std::string words = proc_text(pid, "cmdline");
  std::replace(words.begin(), words.end(), '\0', ' ');
  while (!words.empty() && words.back() == ' ') words.pop_back();
  return words.substr(0, kMostOfCommandLine);
}

std::map<int, pid_t> ranks_of(pid_t launcher) {
  const std::string name = std::string(1, '\0') + "RANK=";
  std::map<int, pid_t> ranks;
  for (const pid_t pid : children_of(launcher)) {
    const std::string environment = environment_of(pid);
    const size_t found = environment.find(name);
    int rank = -1;
    if (found == std::string::npos) continue;
    const char* first = environment.data() + found + name.size();
    if (std::from_chars(first, environment.data() + environment.size(), rank).ec == std::errc())
      ranks[rank] = pid;
  }
  return ranks;
}

namespace {

pid_t child_of(pid_t parent, const char* command) {
  for (const pid_t pid : parent > 0 ? children_of(parent) : std::vector<pid_t>())
    if (command_line_of(pid).find(command) != std::string::npos) return pid;
  return -1;
}

}  // namespace

pid_t agent_of(pid_t launcher) {
  return child_of(launcher, " launch-agent ");
}

pid_t master_of(pid_t launcher) {
  const pid_t own = child_of(launcher, " launch-master ");
  return own > 0 ? own : child_of(agent_of(launcher), " launch-master ");
}

}  // namespace athanor::chaos
