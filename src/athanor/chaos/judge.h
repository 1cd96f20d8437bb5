// Says whether what must hold after a fault has held.
//
//   const Seen seen = ...;                          // by trial.h
//   judge(seen, fault.expectation());               // {"exit code 1, expected 0"}; empty: passed
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "athanor/chaos/fault.h"

namespace athanor::chaos {

constexpr int kMasterMissed = -1, kAgentMissed = -2;

// What was seen of a trial, from outside.
struct Seen {
  int64_t at_step = 0;                   // the newest when it was struck
  int64_t best_step = 0, last_step = 0;  // the newest at the end; the last of the undisturbed run
  std::vector<std::string> notes{};      // what kept the fault from being done
  std::vector<int> missed{};           // ranks whose process was gone before it was struck, or one of these:
  std::string endless{};               // why it was given up: "did not end within 60 s"; "": it ended
  int exit_code = -1;                  // of the job that was struck
  std::string ending{}, last_words{};  // how that ended; the end of its standard error
  std::optional<int> second_exit_code{};      // of the same command again
  bool compared = false;                      // with the undisturbed run
  std::vector<std::string> differences{};     // from it: run_evidence.h
  std::optional<int64_t> lost_steps{};        // seen, and done again; none: nothing was done after the fault
  std::optional<bool> survivors_kept_pids{};  // none: there are none
  std::optional<double> detect_seconds{}, recover_seconds{};
  std::vector<std::string>
      alarms{};  // what the launcher took for a failure: "rank 1 was killed by signal 9 (SIGKILL)"
  std::vector<std::string> leftovers{};
};

// The last error in what a program wrote to standard error: "rank 1 was killed by signal 9 (SIGKILL)"; "": none.
std::string error_said_in(const std::string& text);

std::vector<std::string> judge(const Seen& seen, const Expectation& expected);

}  // namespace athanor::chaos
