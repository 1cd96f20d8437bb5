// Fault injection for law 8: ranks make random collective and point-to-point calls, one rank misbehaves at one call,
// and the errors that the ranks get are compared with those that they must get.
//
//   const FaultTrial trial = plan_trial(seed, FaultKind::shape, "shm", number);      // a pure function of these
//   const Heard heard = run_trial(trial, late_ms);
//   judge(trial.kind, trial, heard)    // "" if the errors name the call (number and name) and the rank to blame
//
//   none       no fault, and no error may be reported; judge() for any other kind must then complain
//   straggler  the rank comes only after another rank has reported it late; then all calls complete
//   shape      the rank passes another count than the others (of a message: than its peer)
//   missing    the rank skips the call and makes the next one in its place
//   dead       the rank is killed before its call or within it (a thread: by an injected fault)
// Thread rule: one thread, and no other runs while processes are forked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/comm/call.h"

namespace athanor::apps {

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
  int at = 0;                // the call at which the fault happens
  int64_t surplus = 0;       // shape: how much larger the victim's count is
  bool within = false;       // dead: after the call was started; false: before
  int sequence() const;      // of call `at`: among the collectives, or among the messages of its two ranks
  std::string text() const;  // rank 1 of 3 at call 4, all_reduce(f32[33], "c4")
};

FaultTrial plan_trial(uint64_t seed, FaultKind kind, const std::string& transport, int number);

// all_to_all_v with a call's count: the number of elements that rank `from` sends to rank `to`.
int64_t uneven_count(int64_t count, int from, int to);

struct Heard {
  std::vector<std::string> endings;  // how each rank ended, as outcome_of() says it
  std::vector<std::string> reports;  // reports of late ranks since the fault
  // From the fault until the last rank has ended. Straggler: until the first report, minus late_ms.
  double seconds = 0.0;
};

Heard run_trial(const FaultTrial& trial, int64_t late_ms);

// What is wrong with the errors of a trial if `kind` was the fault; "" if they are right.
std::string judge(FaultKind kind, const FaultTrial& trial, const Heard& heard);

}  // namespace athanor::apps
