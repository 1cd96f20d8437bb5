#include "athanor/chaos/preload.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "athanor/base/file.h"

namespace athanor::chaos {
namespace {

std::string path_of(const std::string& module) {
  std::error_code error;
  return (std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / module).string();
}

}  // namespace

std::string preload_unavailable(const std::string& module) {
  return system_env().exists(path_of(module)) ? "" : fmt::format("needs {} beside the program", module);
}

void preload(JobCommand& command, const std::string& module) {
  auto& environment = command.environment;
  const auto before = std::find_if(environment.begin(), environment.end(), [](const std::string& variable) {
    return variable.starts_with("LD_PRELOAD=");
  });
  if (before == environment.end())
    environment.push_back("LD_PRELOAD=" + path_of(module));
  else
    *before += ":" + path_of(module);
}

}  // namespace athanor::chaos
