// How this program starts itself again, as the ranks of a job.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace athanor::apps {

// The program's path, so that `ps` shows the ranks under the program's name; /proc/self/exe if a new build has replaced
// the file.
inline std::string own_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return !error && access(path.c_str(), X_OK) == 0 ? path.string() : "/proc/self/exe";
}

// The path of a file in the program's folder.
inline std::string beside_program(const std::string& file) {
  return (std::filesystem::path(own_program()).parent_path() / file).string();
}
inline std::string cuda_plugin() {
  return beside_program("athanor_cuda.so");
}

}  // namespace athanor::apps
