// Learning-rate schedules: the rate is a pure function of the step (from 1).
//
//   const LrSchedule schedule{.decay = "wsd", .lr = 3e-4, .steps = 10000, .warmup_steps = 200};
//   const double lr = schedule.at(step);
//
// A schedule may begin later in a run, with a phase (config/phases.h): it counts its steps from first_step.
//
//   warmup     lr * s / warmup_steps for s <= warmup_steps (which may exceed `steps`), where s = step - first_step + 1
//   constant   lr
//   linear     from lr down to min_lr_ratio * lr at the last step, in a straight line
//   cosine     from lr down to min_lr_ratio * lr along half a cosine (Loshchilov & Hutter, SGDR, 2017)
//   wsd        lr until the last decay_fraction of the steps, then linear (Hu et al., MiniCPM, 2024)
//
// Beyond its last step the rate stays what it was there. Errors: Error for an unknown decay, and for a step before
// first_step. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::optim {

struct LrSchedule {
  std::string decay = "cosine";
  double lr = 3e-4;
  int64_t steps = 1000;  // of the schedule
  int64_t warmup_steps = 0;
  double min_lr_ratio = 0.1;
  double decay_fraction = 0.2;
  int64_t first_step = 1;  // of the run

  double at(int64_t step) const;  // a step of the run
};

}  // namespace athanor::optim
