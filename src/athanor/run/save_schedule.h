// After which steps a checkpoint is saved: every `every_steps`, after the last step, and again after a failed save.
//
//   SaveSchedule saves(config.checkpoint.every_steps, config.train.steps);
//   if (saves.is_due(step)) try { write(); saves.succeeded(); } catch (const IoError&) { saves.failed(step, true); }
//
// A failed save is tried again after 1, 2, 4 ... steps, and at the next regular one: soon, but a disk that stays full
// does not cost a save per step. All ranks see the same saves fail, so they agree. Thread rule: plain data.
#pragma once

#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::run {

class SaveSchedule {
 public:
  SaveSchedule(int64_t every_steps, int64_t last_step) : every_steps_(every_steps), last_step_(last_step) {}

  void set_every(int64_t every_steps) { every_steps_ = every_steps; }
  bool is_due(int64_t step) const {
    return step == last_step_ || (every_steps_ > 0 && step % every_steps_ == 0) || step == retry_step_;
  }
  void succeeded() { retry_after_ = 0; }
  // Schedules a retry if `may_retry`. Returns true for the first failure in a row.
  bool failed(int64_t step, bool may_retry) {
    const bool is_first = retry_after_ == 0;
    retry_after_ = is_first ? 1 : 2 * retry_after_;
    if (may_retry) retry_step_ = step + retry_after_;
    return is_first;
  }

 private:
  int64_t every_steps_, last_step_;
  int64_t retry_step_ = -1, retry_after_ = 0;
};

}  // namespace athanor::run
