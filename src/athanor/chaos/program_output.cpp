#include "athanor/chaos/program_output.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "athanor/base/check.h"
#include "athanor/control/descriptor.h"

namespace athanor::chaos {
namespace {

std::vector<char*> to_pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

pid_t start(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
            int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  const auto argv = to_pointers(arguments), envp = to_pointers(environment);
  const int code = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) throw IoError(fmt::format("cannot run {}", arguments[0]), code);
  return pid;
}

}  // namespace

std::string program_output(const std::vector<std::string>& arguments,
                           const std::vector<std::string>& environment) {
  check(!arguments.empty(), "chaos: no command");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw IoError("chaos: the system gives no pipe", errno);
  const control::Descriptor out(ends[0]);
  control::Descriptor in(ends[1]);
  const pid_t pid = start(arguments, environment, in.get());
  in.reset();
  std::string text;
  std::array<char, 1 << 16> bytes;
  for (ssize_t n = 0; (n = read(out.get(), bytes.data(), bytes.size())) != 0;) {
    if (n < 0 && errno != EINTR) break;
    if (n > 0) text.append(bytes.data(), static_cast<size_t>(n));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  check(code == 0, "{}: exit code {}", fmt::join(arguments.begin() + 1, arguments.end(), " "), code);
  return text;
}

}  // namespace athanor::chaos
