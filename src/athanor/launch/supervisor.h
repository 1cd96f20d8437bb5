// Runs the ranks of one host: starts N copies of a program, watches them, and ends the job as a whole.
//
//   LaunchOptions options;
//   options.num_ranks = 4;
//   options.command = {"/proc/self/exe", "train", "run.toml"};
//   options.environment = ...;                      // this process's own, usually
//   options.segment_fd = segment.fd();              // all ranks inherit it
//   options.on_failed = [&](int rank, const std::string& why) { segment.mark_dead(rank, why); };
//   const LaunchResult result = supervise(options);
//
// Several hosts have a supervisor each. Each rank gets RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE and ATHANOR_SHM_FD (launch/environment.h), an
// empty standard input and a process group of its own, and is killed when the supervisor dies, however it
// dies. A rank that fails (a signal, an exit code but 0) is made known through on_failed; the others have
// grace_ms to end by themselves, then SIGTERM, after another grace_ms SIGKILL. The first of the stop_signals()
// (stop_requests.h) to the supervisor is passed on to every rank, a second one kills them all; SIGTSTP stops the
// ranks too. Exit code 75 (interrupted, saved) is a good end. While supervise() runs, these are blocked in its thread. Output: rank 0 has the supervisor's
// standard output, and its standard error where `terminal` is true; otherwise its bytes go to `write` as they
// are. Lines of other ranks' standard error go to `write` as "[rank 2] line", the same line of several ranks
// once ("[ranks 1-3] line"), and not at all if rank 0 wrote it too. Their standard output is dropped. Thread
// rule: the thread that calls must live as long as the ranks, since they die with it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

struct LaunchOptions {
  int num_ranks = 1;                   // of this host
  int first_rank = 0, world_size = 0;  // of the job on all hosts: the number of the first here; 0: num_ranks
  std::vector<std::string> command;    // the program's path, then its arguments
  std::vector<std::string> environment;  // NAME=value
  int segment_fd = -1;
  int64_t grace_ms = 5'000;
  bool terminal = false;  // rank 0 draws on a terminal, so its standard error is not looked at
  std::function<void(std::string_view bytes)> write = [](std::string_view) {};
  std::function<void(int rank, const std::string& reason)> on_failed = [](int, const std::string&) {};
  std::function<void(int rank)> on_finished = [](int) {};  // exit code 0
  // The rank that the others blame, if they do: the one that failed first may only have been quicker to end.
  std::function<std::optional<int>()> blamed = [] { return std::optional<int>(); };
};

struct LaunchResult {
  int exit_code =
      0;  // 0 if every rank's is, 75 if every one's is 0 or 75, 2 if that of the rank to blame is, else 1
  int failed_rank = -1;  // of this host's
  std::string message;   // rank 1 was killed by signal 9 (SIGKILL)
  std::string hint;
};

// IoError if a rank cannot be started.
LaunchResult supervise(const LaunchOptions& options);

}  // namespace athanor
