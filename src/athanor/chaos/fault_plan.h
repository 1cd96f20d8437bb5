// What a trial asks of a rank at one of its collectives: a small file that both have mapped, an entry a rank.
//
//   FaultPlan::create("runs/trial_0.faults");                 // before the job starts; its path goes into the environment
//   FaultPlan plan("runs/trial_0.faults");
//   plan.ask(1, {.act = PlannedFault::Act::skip, .step = 41, .where = 0.3});
//   if (const auto fault = plan.next_call(1, call)) strike();   // a rank, before each (faulty_world.h); once
//   plan.taken_ns(1);
//
// Collectives are counted from one sum of losses, of which each step has one, to the next. Errors: IoError for a file that
// cannot be made or mapped. Thread rule: any thread and process; a rank has an object of its own, which counts its calls.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "athanor/comm/call.h"

namespace athanor::chaos {

struct PlannedFault {
  enum class Act : int64_t {
    nan_gradient,   // NaN in what it gives to a sum of gradients
    flip_gradient,  // a bit of what it gets of a sum of gradients that all replicas get
    skip,           // makes no call
    delay,          // makes it later
    reorder,        // makes the call that comes next in the group
    mismatch        // makes it with another number of elements
  };
  static constexpr int64_t kSoon = -1;
  Act act = Act::nan_gradient;
  int64_t step = kSoon;  // the rank's how manyth; kSoon: the one that it is in
  double where =
      0.0;  // which of the step's collectives, [0, 1); acts on gradients take the first one of theirs
  double amount = 0.0;  // delay: seconds; flip_gradient: which bit, [0, 1); from 1 on a high one
};

class FaultPlan {
 public:
  static constexpr const char* kVariable = "ATHANOR_FAULT_PLAN";  // of the environment: its path
  static constexpr size_t kMostRanks = 1024;

  static void create(const std::string& path);
  explicit FaultPlan(const std::string& path);

  void ask(int rank, const PlannedFault& fault);
  bool is_asked(int rank) const;
  int64_t taken_ns(int rank) const;  // when the last one was taken, of the monotonic clock; 0: never

  // Counts the call. What the rank was asked to do at it, if it was; then it is so no more.
  std::optional<PlannedFault> next_call(int rank, const Call& call);

 private:
  struct Entry {
    int64_t step, act;  // step 0: nothing
    double where, amount;
    int64_t taken_ns;
  };
  Entry& of(int rank) const;
  bool is_due(const PlannedFault& fault, const Call& call, int64_t number) const;

  std::shared_ptr<Entry> entries_;                     // [kMostRanks]
  std::atomic<int64_t> step_ = 1;                      // the first is there without
  std::atomic<int64_t> calls_ = 0, calls_before_ = 0;  // of this step, and of the one before
};

}  // namespace athanor::chaos
