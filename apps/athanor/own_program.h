// How this program starts itself again, as the ranks of a job.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace athanor {

// The path rather than /proc/self/exe, so that `ps` shows the ranks under the program's name; but that if a
// new build has replaced the file.
inline std::string own_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return !error && access(path.c_str(), X_OK) == 0 ? path.string() : "/proc/self/exe";
}

}  // namespace athanor
