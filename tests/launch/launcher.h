// run_agent() in a process of its own, as `athanor launch` calls it, with the test's worker as the program of its ranks.
//
//   Launcher launcher({.num_ranks = 3, .arguments = {"sum"}});
//   launcher.finish();
//   EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/launch/agent.h"
#include "support/kill.h"

namespace athanor::tests {

struct LauncherOptions {
  int num_ranks = 1;
  std::vector<std::string> arguments{};
  std::vector<std::string> environment{};  // NAME=value, beside a few
  int64_t grace_ms = 600'000;              // nobody who ends by himself is so slow that his grace ends
  int ignored = 0;                         // a signal that the launcher ignores
  int64_t ms_a_signal = 0;                 // between two signals, by its clock
  int max_restarts = 0, min_ranks = 1;
  std::string run_folder{};
  int first_rank = 0, world_size = 0;
  bool terminal = false;
  bool has_agents = false;  // in processes of their own, started again where they are gone
  int64_t stopped_ms = 600'000;
  std::string system_root{};
  HangAction hang = HangAction::warn;
  int64_t hang_ms = 600'000, timeout_ms = 600'000;
  bool tells_slow = true;
  int64_t warm_up_ms = 600'000;
};

class Launcher {
 public:
  explicit Launcher(const LauncherOptions& options);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  pid_t pid() const { return pid_; }
  void wait_for_line(const std::string& line);      // of rank 0's standard output
  void wait_for_text(const std::string& expected);  // of what the launcher writes, at the end of `text`

  // Waits for the end. `out` is the rest of rank 0's standard output, `text` what the launcher wrote, then its result,
  // "RESULT rank: message HINT hint" with the details below it, and what it left behind, "LEFT 0 descriptors, 0 children, 0 sockets".
  void finish();
  int num_sockets() const;  // that are there now

  std::string out, text;
  int exit_code = -1;

 private:
  int run(const LauncherOptions& options, int report) const;
  pid_t pid_ = 0;
  int out_ = -1, report_ = -1;
  std::string runtime_folder_;
};

}  // namespace athanor::tests
