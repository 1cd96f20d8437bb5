// Runs the ranks of one host: starts a process for each, holds what has to outlive a process (the segment of each
// generation, the slots of each rank), and does what a Master decides (master.h): a rank that dies is started again, and
// its survivors meet it in the next generation. Of several hosts each has an agent.
//
//   LaunchOptions options;
//   options.num_ranks = 4;
//   options.command = {"/proc/self/exe", "train", "run.toml"};
//   options.environment = ...;                      // usually this process's own
//   options.max_restarts = 10;
//   const LaunchResult result = run_agent(options);
//
// - Start: each rank gets RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, and ATHANOR_CONTROL, ATHANOR_JOB and
//   ATHANOR_WORKER (launch/environment.h), over which it meets the others (control/agent_link.h); an empty standard input
//   and a process group of its own. Once it has met its agent it outlives it: it saves and ends if the agent is gone, or is
//   silent for ten seconds; before that it is killed when the agent dies. With several hosts, or if the ranks cannot speak to an agent (`control`), it gets
//   ATHANOR_SHM_FD and ATHANOR_SNAPSHOT_FD instead, any failure ends the job, and it is
//   killed when the agent dies, however it dies.
// - Failure: a rank fails by a signal or an exit code other than 0 and 75 (interrupted, saved). The other ranks throw
//   PeerLost at once. If the job fails by it, the result has where, when and why (failure_report.h), and the last 64 KiB that
//   each rank wrote stand in logs/rank0.output, ... of the run's folder.
// - Stopped: a rank whose process is stopped while nobody makes progress is named, and killed if that lasts
//   (progress_watch.h). SIGTSTP to the launcher blames nobody.
// - Standing still: if no rank goes on with what it does, their stacks are read, and the one that the others wait for is named
//   (hang_report.h).
// - Signals: the first of stop_signals() (stop_requests.h) is passed on to every rank; a second one kills all ranks.
//   SIGTSTP stops the ranks, too. These signals are blocked in the calling thread while run_agent() runs.
// - Output: rank 0 has the agent's standard output, and its standard error if `terminal`; otherwise rank 0's standard
//   error goes to `write` unchanged. Lines of other ranks' standard error go to `write` as "[rank 2] line", once if
//   several ranks wrote the same ("[ranks 1-3] line"), and not at all if rank 0 wrote it, too. Their standard output is
//   dropped. What happens to ranks is a line of its own, and one in events.jsonl of the run's folder (job_record.h).
// - Master: what is decided, and the count of lost time, is the Master's, in a process of its own that may die at any time
//   (master_front.h). Its answers are acted on whole or not at all, so no line is written twice or torn by its death.
// - Operator: launcher.json in the run's folder (job_file.h) says where the agent listens to its operator
//   (operator_desk.h). It keeps other launchers from the run: Error.
//
// Thread rule: one thread, which lives as long as the ranks. Errors: IoError if the ranks cannot be started.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/file.h"
#include "athanor/launch/launch_result.h"

namespace athanor::launch {

// What becomes of a rank that holds up the others (hang_watch.h): nothing; it is told, and killed after timeout_ms; it is told
// and killed.
enum class HangAction { off, warn, act };

struct LaunchOptions {
  int num_ranks = 1;                   // of this host
  int first_rank = 0, world_size = 0;  // of the job on all hosts: its first rank here; its size, 0: num_ranks
  std::vector<std::string> command;    // the program's path, then its arguments
  std::vector<std::string> environment;  // NAME=value
  bool control = true;
  // A program that serves the job's master (master_process.h) at the descriptor whose number follows; empty: in this process.
  std::vector<std::string> master_command{};
  // A program that is the job's agent (keeper/agent_process.h) at the descriptor whose number follows; empty: this process is.
  // Only with a master_command, and not with several hosts.
  std::vector<std::string> agent_command{};
  int max_restarts = 0;              // [launch] of the config (config/run_config.h)
  int min_ranks = 1, max_ranks = 0;  // 0: num_ranks
  std::string runtime_folder;        // for the agent's sockets: $XDG_RUNTIME_DIR
  std::string run_folder;            // as far as it is known; else from the ranks, when they begin
  // Why the job cannot go on with that many ranks; "": it can.
  std::function<std::string(int num_ranks)> refuse_size = [](int) { return std::string(); };
  // Why the ranks cannot go on with that setting; "": they can.
  std::function<std::string(const std::string& setting)> refuse_setting = [](const std::string&) {
    return std::string("the launcher could not read the settings of the run");
  };
  int64_t grace_ms = 5'000;    // for ranks that have to end, or to come back from a world that broke
  int64_t stopped_ms = 5'000;  // a rank that is stopped so long, or 5 median steps, is killed
  // For ranks to be measured before they meet (warm_up/rounds.h); 0: they are not.
  int64_t warm_up_ms = 10'000;
  HangAction hang = HangAction::warn;
  bool tells_slow = true;        // ranks that work longer than they used to, or than others (slow_watch.h)
  int64_t timeout_ms = 600'000;  // [launch] of the config
  int64_t hang_ms = 10'000;      // a job whose ranks do no step for so long, or 20 median steps, stands still
  bool terminal = false;         // rank 0 draws on a terminal: its standard error is not captured
  // Called by a thread of the launcher's own: whoever reads it too slowly keeps nobody (writer_thread.h).
  std::function<void(std::string_view bytes)> write = [](std::string_view) {};
  std::function<int64_t()> clock = now_ns;  // which tells a second signal from the first
  Env* env = &system_env();                 // for events.jsonl, and what ranks wrote at last
  std::string system_root;                  // the folder under which /proc and /sys lie (end_in_words.h)
};

LaunchResult run_agent(const LaunchOptions& options);

}  // namespace athanor::launch
