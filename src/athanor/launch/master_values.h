// What a Master is made with, what it is told of a rank's end, and what it says at last (master.h).
//
//   Master master({.num_ranks = 3, .max_restarts = 10});
//   master.exited(worker, {.exit_code = -1, .signal_number = SIGKILL, .how = "was killed by signal 9 (SIGKILL)"}, now);
//   const Verdict verdict = master.verdict(blamed);
//
// Thread rule: plain data.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::launch {

constexpr int64_t kNeverNs = std::numeric_limits<int64_t>::max();

struct MasterOptions {
  int num_ranks = 1;
  int first_rank = 0;                // of this host in the job: for names
  int max_restarts = 0;              // 0: any failure ends the job
  int min_ranks = 1, max_ranks = 0;  // 0: num_ranks
  int64_t grace_ns = 5'000'000'000;
  int64_t start_ns = 60'000'000'000;
  int64_t warm_up_ns = 0;  // the ranks are measured before the first world, so long at most; 0: they are not
  bool meet = true;  // false: the ranks find their world in their environment, and there is no other one
};

struct RankEnd {
  int exit_code = -1;     // -1: killed by a signal, or not started
  int signal_number = 0;  // 0: none
  std::string how{};      // "exited with code 1"
  std::string meaning{};  // what that usually means (end_in_words.h); "": no more
  int64_t seen_ns = -1;   // when the system told of it; -1: now
  bool good() const;      // 0, or interrupted and saved
  bool operator==(const RankEnd&) const = default;
};

struct Verdict {
  int exit_code = 0;     // 0: all ranks ended with 0; 75: all with 0 or 75; 2: a wrong config; otherwise 1
  int failed_rank = -1;  // among the ranks of this host
  int num_others_failed = 0;    // besides it
  bool rank_0_says_it = false;  // it ended with 2, too, so it has printed what is wrong with the config
  std::string message{};        // "rank 1 was killed by signal 9 (SIGKILL)"
  std::string what{}, hint{};   // last words that the rank sent
};

}  // namespace athanor::launch
