// Learning-rate schedules: the rate is a pure function of the step (from 1).
//
//   const LrSchedule schedule{.decay = "wsd", .lr = 3e-4, .steps = 10000, .warmup_steps = 200};
//   const double lr = schedule.at(step);
//
// A schedule may begin later in a run, with a phase (config/phases.h): it counts its steps s from first_step, which is 1.
//
//   warmup        from warmup_init_ratio * lr up to lr at s = warmup_steps in a straight line; this may exceed `steps`
//   constant      lr
//   linear        from lr down to min_lr_ratio * lr at the last step, in a straight line
//   polynomial    the same along the curve (1 - progress)^power
//   cosine        from lr down to min_lr_ratio * lr along half a cosine (Loshchilov & Hutter, SGDR, 2017)
//   wsd           lr until the last decay_fraction of the steps, then linear (Hu et al., MiniCPM, 2024)
//   inverse_sqrt  lr * sqrt(warmup_steps / s), without an end (Vaswani et al., 2017), where a warmup_steps of 0 is 1.
//                 The paper's factor C^-0.5 is in lr, which is the peak. A warmup_init_ratio of 1 makes it T5's
//                 (Raffel et al., 2020): lr for warmup_steps, then falling.
//
// Beyond its last step the rate stays what it was there, that of inverse_sqrt falls on. Errors: Error for an unknown decay,
// and for a step before first_step. Thread rule: plain data.
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
  double warmup_init_ratio = 0.0;
  double min_lr_ratio = 0.1;
  double decay_fraction = 0.2;
  double power = 1.0;
  int64_t first_step = 1;  // of the run

  double at(int64_t step) const;  // a step of the run
};

}  // namespace athanor::optim
