// What a trial asks of a rank in the middle of a step: a small file that both have mapped, a number a rank.
//
//   FaultPlan::create("runs/trial_0.faults");                 // before the job starts; its path goes into the environment
//   FaultPlan plan("runs/trial_0.faults");
//   plan.ask(1, 41);                                          // of rank 1, in step 41
//   plan.step_begins();                                       // a rank, for each (faulty_world.h)
//   if (plan.take(1)) strike();                               // once
//
// Errors: IoError for a file that cannot be made or mapped. Thread rule: any thread and process; a rank has an object of its
// own, which counts its steps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace athanor::chaos {

class FaultPlan {
 public:
  static constexpr const char* kVariable = "ATHANOR_FAULT_PLAN";  // of the environment: its path
  static constexpr size_t kMostRanks = 1024;

  static void create(const std::string& path);
  explicit FaultPlan(const std::string& path);

  void ask(int rank, int64_t step);
  bool is_asked(int rank) const;
  void step_begins() { ++step_; }  // the first is there without
  bool take(int rank);             // whether it was asked for in this step; then it is so no more

 private:
  int64_t& of(int rank) const;

  std::shared_ptr<int64_t> steps_;  // [kMostRanks]; 0: nothing
  std::atomic<int64_t> step_ = 1;
};

}  // namespace athanor::chaos
