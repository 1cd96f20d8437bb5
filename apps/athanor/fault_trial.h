// A trial of law 8: ranks make random calls together, one rank goes wrong at one of them, and what all are told is held
// against what they must be told.
//
//   const FaultTrial trial = plan_trial(seed, FaultKind::shape, "shm", number);      // a pure function of these
//   const Heard heard = run_trial(trial, late_ms);
//   judge(trial.kind, trial, heard)    // "" if all was named: the call by its number and name, the rank to blame
//
//   none       nothing goes wrong, and nobody hears of anything: the other kinds' judges must find nothing named
//   straggler  the rank comes only when somebody has reported it late; then all goes on to the end
//   shape      the rank gives another count than the others (of a message: than its peer)
//   missing    the rank leaves the call out and makes the next one in its place
//   dead       the rank is killed before its call or within it (as a thread: by an injected fault)
// Thread rule: one thread, and no other runs while processes are forked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/comm/call.h"

namespace athanor {

enum class FaultKind { none, straggler, shape, missing, dead };
const std::vector<std::string>& fault_kinds();  // their names, in this order

constexpr int kMostTrialRanks = 5;

struct TrialCall {
  Call call;     // of a message: the sender's
  int from = 0;  // of a message
};

struct FaultTrial {
  FaultKind kind = FaultKind::none;
  std::string transport;  // thread, shm or gloo
  int number = 0;
  int ranks = 2, victim = 0;
  std::vector<TrialCall> calls;
  int at = 0;                // the call at which it happens
  int64_t surplus = 0;       // shape: what the victim's count has more
  bool within = false;       // dead: when the call has been started
  int sequence() const;      // of call `at`: among the collectives, or among the messages of its two ranks
  std::string text() const;  // rank 1 of 3 at call 4, all_reduce(f32[33], "c4")
};

FaultTrial plan_trial(uint64_t seed, FaultKind kind, const std::string& transport, int number);

// Of all_to_all_v with a call's count: what rank `from` has for rank `to`.
int64_t uneven_count(int64_t count, int from, int to);

struct Heard {
  std::vector<std::string> endings;  // of the ranks, as outcome_of() says them
  std::vector<std::string> reports;  // of lateness, since the fault
  // From the fault until the last rank's ending, of a straggler until the first report less late_ms.
  double seconds = 0.0;
};

Heard run_trial(const FaultTrial& trial, int64_t late_ms);

// What is wrong with what was heard, or "", if `kind` had happened.
std::string judge(FaultKind kind, const FaultTrial& trial, const Heard& heard);

}  // namespace athanor
