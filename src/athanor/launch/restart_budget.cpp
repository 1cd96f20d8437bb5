#include "athanor/launch/restart_budget.h"

#include <fmt/core.h>

#include <algorithm>

namespace athanor::launch {

void RestartBudget::committed(int64_t step) {
  if (step <= best_step_) return;
  if (best_step_ < 0) refilled_at_ = step;
  best_step_ = step;
  attempts_ = 0;
  const int64_t refills = (step - refilled_at_) / kStepsToRefill;
  if (refills == 0) return;
  left_ = max_restarts_;
  refilled_at_ += refills * kStepsToRefill;  // the same, however many of the steps it was told of
}

void RestartBudget::go_back(int64_t step) {
  best_step_ = refilled_at_ = step;
  renew();
}

RestartBudget::Answer RestartBudget::ask(int rank, bool new_attempt) {
  Failures& failures = failures_[rank];
  if (failures.count == 0 || failures.step != best_step_) failures = {best_step_, 0};
  if (++failures.count >= kMostAtOneStep)
    return {.refusal = fmt::format("{} times {}", failures.count,
                                   best_step_ < 0 ? std::string("before the first step")
                                                  : fmt::format("at step {}", best_step_))};
  if (new_attempt) {
    if (left_ == 0) return {.refusal = fmt::format("all {} restarts are used up", max_restarts_)};
    --left_;
    ++attempts_;
  }
  if (attempts_ <= 1) return {};
  const int doublings = std::min(attempts_ - 2, 30);
  return {.refusal = "", .delay_ns = std::min(kFirstDelayNs << doublings, kLongestDelayNs)};
}

void RestartBudget::renew() {
  left_ = max_restarts_;
  attempts_ = 0;
  failures_.clear();
}

}  // namespace athanor::launch
