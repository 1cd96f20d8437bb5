#include "runner/process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace athanor::tests {

std::string ProcessEnd::text() const {
  if (silent) return "killed: nothing was heard of it for too long";
  if (signal != 0) return "signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  return "exit code " + std::to_string(exit_code);
}

ProcessEnd run_process(const std::vector<std::string>& command, const std::string& output,
                       const std::string& variable, int silence_s,
                       const std::function<uint64_t()>& progress) {
  std::vector<char*> arguments, environment;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  for (char** each = environ; *each != nullptr; ++each) environment.push_back(*each);
  if (!variable.empty()) environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);

  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot start " + command[0]);
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // with the runner
    const int nothing = open("/dev/null", O_RDONLY);
    const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
    if (nothing < 0 || file < 0) _exit(127);
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
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const uint64_t now = progress();
    if (now != last) {
      last = now;
      heard = Clock::now();
    } else if (Clock::now() - heard > std::chrono::seconds(silence_s)) {
      end.silent = true;
      kill(-child, SIGKILL);
      kill(child, SIGKILL);
    }
  }
  kill(-child, SIGKILL);  // its children; itself has ended, and keeps the number until the next line
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  return end;
}

}  // namespace athanor::tests
