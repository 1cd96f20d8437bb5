// The processes of this machine, and which of them a process has started.
//
//   const pid_t agent = child_of(launcher.pid(), "agent");          // with this word on its command line; -1: there is none
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace athanor::tests {

struct Process {
  pid_t pid = -1, parent = -1;
  std::string command{};  // its words
};

// "": it has ended, maybe while it is read, which an iterator over the stream would throw.
inline std::string text_of_file(const std::filesystem::path& path) {
  const std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

inline std::vector<Process> all_processes() {
  std::vector<Process> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string line = text_of_file(entry.path() / "stat");
    Process one{.pid = std::stoi(name), .command = text_of_file(entry.path() / "cmdline")};
    std::replace(one.command.begin(), one.command.end(), '\0', ' ');
    const char* after = std::strrchr(line.c_str(), ')');
    if (after != nullptr && std::sscanf(after + 1, " %*c %d", &one.parent) == 1) found.push_back(one);
  }
  return found;
}

inline pid_t child_of(pid_t parent, const std::string& word) {
  for (const Process& one : all_processes())
    if (one.parent == parent && one.command.find(" " + word + " ") != std::string::npos) return one.pid;
  return -1;
}

}  // namespace athanor::tests
