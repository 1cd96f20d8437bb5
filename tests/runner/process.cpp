#include "runner/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string_view>

namespace athanor::tests {
namespace {

constexpr int kLookEveryMs = 1000;  // at what a silent process has said

}  // namespace

std::string ProcessEnd::text() const {
  if (silent) return "killed: nothing was heard of it for too long";
  if (signal != 0) return "signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  return "exit code " + std::to_string(exit_code);
}

ProcessEnd run_process(const std::vector<std::string>& command, const ProcessOptions& options,
                       const std::function<uint64_t()>& progress) {
  std::vector<char*> arguments, environment;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const std::string temporary = "TMPDIR=" + options.folder;
  for (char** each = environ; *each != nullptr; ++each)
    if (options.folder.empty() || !std::string_view(*each).starts_with("TMPDIR="))
      environment.push_back(*each);
  if (!options.folder.empty()) environment.push_back(const_cast<char*>(temporary.c_str()));
  for (const std::string& variable : options.environment)
    environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);

  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot start " + command[0]);
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // with the runner
    const int nothing = open("/dev/null", O_RDONLY);
    const int file = open(options.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
    if (nothing < 0 || file < 0) _exit(127);
    if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(127);
    dup2(nothing, STDIN_FILENO);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    close(nothing);
    close(file);
    execve(arguments[0], arguments.data(), environment.data());
    _exit(127);
  }
  ProcessEnd end;
  using Clock = std::chrono::steady_clock;
  uint64_t last = progress();
  Clock::time_point heard = Clock::now();
  const int ended = static_cast<int>(syscall(SYS_pidfd_open, child, 0));  // readable once it has ended
  if (ended < 0) throw std::runtime_error("run_tests: this kernel has no pidfd_open");
  pollfd event{.fd = ended, .events = POLLIN, .revents = 0};
  while (poll(&event, 1, kLookEveryMs) <= 0) {
    const uint64_t now = progress();
    if (now != last) {
      last = now;
      heard = Clock::now();
    } else if (Clock::now() - heard > std::chrono::seconds(options.silence_s)) {
      end.silent = true;
      kill(-child, SIGKILL);
      kill(child, SIGKILL);
    }
  }
  close(ended);
  kill(-child, SIGKILL);  // its children; itself has ended, and keeps the number until the next line
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  return end;
}

}  // namespace athanor::tests
