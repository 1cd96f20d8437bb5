#include "athanor/launch/diagnosis/process_counters.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace athanor::launch::diagnosis {
namespace {

std::filesystem::path folder_of(pid_t process, const std::string& root) {
  return root + "/proc/" + std::to_string(process);
}

// That comes first in the text, after blanks.
int64_t leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

int64_t processor_delay_ns(pid_t process, const std::string& root) {
  std::error_code gone;
  int64_t all_ns = 0;
  for (auto task = std::filesystem::directory_iterator(folder_of(process, root) / "task", gone);
       !gone && task != std::filesystem::directory_iterator(); task.increment(gone)) {
    std::ifstream file(task->path() / "schedstat");  // ns on a processor, ns ready to run, ...
    int64_t ran_ns = 0, delay_ns = 0;
    if (file >> ran_ns >> delay_ns) all_ns += delay_ns;
  }
  return all_ns;
}

int64_t own_memory_bytes(pid_t process, const std::string& root) {
  constexpr int64_t kKiB = 1024;
  std::ifstream file(folder_of(process, root) / "status");
  int64_t bytes = 0;
  for (std::string line; std::getline(file, line);)
    for (const std::string_view key : {"RssAnon:", "VmSwap:"})
      if (line.starts_with(key)) bytes += kKiB * leading_number(std::string_view(line).substr(key.size()));
  return bytes;
}

}  // namespace athanor::launch::diagnosis
