// Supervises the ranks of one host: starts N copies of a program, watches them, and ends the job as a whole. Of several
// hosts each has a supervisor.
//
//   LaunchOptions options;
//   options.num_ranks = 4;
//   options.command = {"/proc/self/exe", "train", "run.toml"};
//   options.environment = ...;                      // usually this process's own
//   options.segment_fd = segment.fd();              // all ranks inherit it
//   options.snapshot_fds = ...;                     // each rank inherits its own (engine/snapshot_slots.h)
//   options.on_failed = [&](int rank, const std::string& why) { segment.mark_dead(rank, why); };
//   const LaunchResult result = supervise(options);
//
// - Start: each rank gets RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, ATHANOR_SHM_FD and ATHANOR_SNAPSHOT_FD
//   (launch/environment.h), an
//   empty standard input and a process group of its own. It is killed when the supervisor dies, however it dies.
// - Failure: a rank fails by a signal or an exit code other than 0 and 75 (interrupted, saved). on_failed tells of it.
//   The other ranks have grace_ms to end by themselves, then get SIGTERM, and after another grace_ms SIGKILL.
// - Signals: the first of stop_signals() (stop_requests.h) is passed on to every rank; a second one kills all ranks.
//   SIGTSTP stops the ranks, too. These signals are blocked in the calling thread while supervise() runs.
// - Output: rank 0 has the supervisor's standard output, and its standard error if `terminal`; otherwise rank 0's
//   standard error goes to `write` unchanged. Lines of other ranks' standard error go to `write` as "[rank 2] line",
//   once if several ranks wrote the same ("[ranks 1-3] line"), and not at all if rank 0 wrote it, too. Their standard
//   output is dropped.
//
// Thread rule: the ranks die with the thread that calls supervise(). Errors: IoError if a rank cannot be started.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/namespaces.h"

namespace athanor::launch {

struct LaunchOptions {
  int num_ranks = 1;                   // of this host
  int first_rank = 0, world_size = 0;  // of the job on all hosts: its first rank here; its size, 0: num_ranks
  std::vector<std::string> command;    // the program's path, then its arguments
  std::vector<std::string> environment;  // NAME=value
  int segment_fd = -1;
  std::vector<int> snapshot_fds;  // by rank of this host; empty: none
  int64_t grace_ms = 5'000;
  bool terminal = false;  // rank 0 draws on a terminal: its standard error is not captured
  std::function<void(std::string_view bytes)> write = [](std::string_view) {};
  std::function<void(int rank, const std::string& reason)> on_failed = [](int, const std::string&) {};
  std::function<void(int rank)> on_finished = [](int) {};  // exit code 0
  // The rank that the other ranks blame, if any. The rank that failed first need not be the cause.
  std::function<std::optional<int>()> blamed = [] { return std::optional<int>(); };
  std::function<int64_t()> clock = now_ns;  // which tells a second signal from the first
};

struct LaunchResult {
  int exit_code =
      0;  // 0: all ranks ended with 0; 75: all with 0 or 75; 2: the rank to blame ended with 2; otherwise 1
  int failed_rank = -1;  // among the ranks of this host, from 0
  std::string message;   // "rank 1 was killed by signal 9 (SIGKILL)"
  std::string hint;
};

// IoError if a rank cannot be started.
LaunchResult supervise(const LaunchOptions& options);

}  // namespace athanor::launch
