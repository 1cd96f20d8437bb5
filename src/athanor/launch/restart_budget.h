// Whether, and when, a failed rank is started again.
//
//   RestartBudget budget(/*max_restarts=*/10);
//   budget.committed(step);                                              // as progress is reported
//   const auto answer = budget.ask(rank, /*new_attempt=*/true);
//   if (answer.refusal.empty()) start_at(now + answer.delay_ns);
//
// An attempt is one try to bring the job back, however many ranks it takes. The budget counts attempts and is whole again
// after each kStepsToRefill steps of progress beyond the best one. A rank that fails kMostAtOneStep times at one step is
// refused whatever is left. The first attempt comes at once; while no step is committed, the next ones wait 0.1 s, then
// twice as long each, at most 5 s. Thread rule: one thread. A pure value; time is the caller's.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::launch {

constexpr int64_t kStepsToRefill = 100;
constexpr int kMostAtOneStep = 3;
constexpr int64_t kFirstDelayNs = 100'000'000, kLongestDelayNs = 5'000'000'000;

class RestartBudget {
 public:
  explicit RestartBudget(int max_restarts) : max_restarts_(max_restarts), left_(max_restarts) {}

  void committed(int64_t step);
  void go_back(int64_t step);                       // later steps count as not done
  int64_t best_step() const { return best_step_; }  // -1: none is known

  struct Answer {
    std::string refusal;  // "": granted. "3 times at step 41", "all 10 restarts are used up"
    int64_t delay_ns = 0;
  };
  // `rank` has failed; -1: the group has, and no rank is to blame.
  Answer ask(int rank, bool new_attempt);
  void renew();  // all counts begin anew: the job is another one

 private:
  struct Failures {
    int64_t step = -1;
    int count = 0;
  };
  int max_restarts_, left_;
  int attempts_ = 0;  // since the last committed step
  int64_t best_step_ = -1, refilled_at_ = -1;
  std::map<int, Failures> failures_;  // by rank, at its latest step
};

}  // namespace athanor::launch
