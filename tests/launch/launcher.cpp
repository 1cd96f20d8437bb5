#include "launcher.h"

#include <fmt/core.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "support/places.h"

namespace athanor::tests {
namespace {

namespace fs = std::filesystem;

int entries(const std::string& folder) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) count += entry.exists() ? 1 : 0;
  return count;
}

std::string drain(int fd) {
  std::string all;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(fd, buffer, sizeof(buffer))) > 0;) all.append(buffer, static_cast<size_t>(n));
  return all;
}

// Reads up to and with `expected`, or to the end.
void read_until(int fd, const std::string& expected, std::string& seen) {
  char c;
  while (!seen.ends_with(expected) && read(fd, &c, 1) == 1) seen += c;
}

}  // namespace

Launcher::Launcher(const LauncherOptions& options) {
  runtime_folder_ = (fs::temp_directory_path() / "athanor_run_XXXXXX").string();
  int output[2], report[2];
  if (pipe(output) != 0 || pipe(report) != 0 || mkdtemp(runtime_folder_.data()) == nullptr)
    throw std::runtime_error("no pipe or folder");
  std::fflush(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // of a test that is ended
    setpgid(0, 0);
    for (int number = 1; number < SIGRTMIN; ++number) std::signal(number, SIG_DFL);
    if (options.ignored != 0) std::signal(options.ignored, SIG_IGN);
    dup2(output[1], STDOUT_FILENO);
    if (options.has_agents) dup2(report[1], STDERR_FILENO);  // which agents write to
    for (const int fd : {output[0], output[1], report[0]}) close(fd);
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // what this process was given is not for ranks
    _exit(run(options, report[1]));
  }
  close(output[1]);
  close(report[1]);
  out_ = output[0];
  report_ = report[0];
}

int Launcher::run(const LauncherOptions& given, int report) const {
  const auto say = [&](std::string_view bytes) {
    if (write(report, bytes.data(), bytes.size()) < 0) _exit(99);
  };
  LaunchOptions options;
  options.num_ranks = given.num_ranks;
  options.first_rank = given.first_rank;
  options.world_size = given.world_size;
  options.command = {built("tests/launch_worker")};
  options.command.insert(options.command.end(), given.arguments.begin(), given.arguments.end());
  options.environment = {"KEPT=yes", "RANK=77", "ATHANOR_SHM_FD=77", "ATHANOR_CONTROL=none", "PATH=/usr/bin"};
  options.environment.insert(options.environment.end(), given.environment.begin(), given.environment.end());
  options.master_command = {built("tests/launch_worker"), "master"};
  if (given.has_agents) options.agent_command = {built("tests/launch_worker"), "agent"};
  options.grace_ms = given.grace_ms;
  options.max_restarts = given.max_restarts;
  options.min_ranks = given.min_ranks;
  options.run_folder = given.run_folder;
  options.terminal = given.terminal;
  options.stopped_ms = given.stopped_ms;
  options.runtime_folder = runtime_folder_;
  options.system_root = given.system_root;
  options.hang = given.hang;
  options.hang_ms = given.hang_ms;
  options.tells_slow = given.tells_slow;
  options.warm_up_ms = given.warm_up_ms;
  options.timeout_ms = given.timeout_ms;
  options.write = say;
  options.clock = [ms = int64_t{0}, step = given.ms_a_signal]() mutable { return (ms += step) * 1'000'000; };
  try {
    const int before = entries("/proc/self/fd");
    const LaunchResult result = run_agent(options);
    say(fmt::format("RESULT {}: {} HINT {}\n", result.failed_rank, result.message, result.hint));
    if (!result.details.empty()) say(result.details + "\n");
    int children = 0;
    while (waitpid(-1, nullptr, WNOHANG) >= 0) ++children;
    say(fmt::format("LEFT {} descriptors, {} children, {} sockets\n", entries("/proc/self/fd") - before,
                    children, entries(runtime_folder_)));
    return result.exit_code;
  } catch (const std::exception& error) {
    say(std::string("THROWN ") + error.what() + "\n");
    return 98;
  }
}

Launcher::~Launcher() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(out_);
  close(report_);
  std::error_code ignored;
  fs::remove_all(runtime_folder_, ignored);
}

void Launcher::wait_for_line(const std::string& line) {
  std::string seen;
  read_until(out_, line + "\n", seen);
  if (!seen.ends_with(line + "\n")) throw std::runtime_error("rank 0 wrote " + seen + ", not " + line);
}

void Launcher::wait_for_text(const std::string& expected) {
  read_until(report_, expected, text);
  if (!text.ends_with(expected)) throw std::runtime_error("the launcher wrote " + text + ", not " + expected);
}

int Launcher::num_sockets() const {
  return entries(runtime_folder_);
}

void Launcher::finish() {
  // Both at once: who writes much into one of them waits until it is read.
  std::thread reads([this] { text += drain(report_); });
  out = drain(out_);
  reads.join();
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = 0;
  exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace athanor::tests
