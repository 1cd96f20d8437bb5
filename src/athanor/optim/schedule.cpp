#include "athanor/optim/schedule.h"

#include <algorithm>
#include <cmath>

#include "athanor/base/check.h"

namespace athanor::optim {

double LrSchedule::at(int64_t step) const {
  check(step >= first_step, "schedule: got step {}, expected steps from {}", step, first_step);
  const int64_t own = step - first_step + 1;
  const auto s = static_cast<double>(own), last = static_cast<double>(steps),
             warmup = static_cast<double>(warmup_steps);
  if (own <= warmup_steps && warmup_steps > 0) {
    const double init = lr * warmup_init_ratio;
    return init + (lr - init) * s / warmup;
  }
  const double low = lr * min_lr_ratio;
  // Progress of a decay that starts after step `from`: 0 there, 1 at the last step.
  const auto progress = [&](double from) {
    return last <= from ? 1.0 : std::clamp((s - from) / (last - from), 0.0, 1.0);
  };
  if (decay == "constant") return lr;
  if (decay == "linear") return lr + (low - lr) * progress(warmup);
  if (decay == "polynomial") return low + (lr - low) * std::pow(1.0 - progress(warmup), power);
  if (decay == "inverse_sqrt") return lr * std::sqrt(std::max(warmup, 1.0) / s);
  if (decay == "cosine")
    return low + (lr - low) * 0.5 * (1.0 + std::cos(progress(warmup) * 3.141592653589793));
  if (decay == "wsd") {
    const double from = std::max(warmup, last * (1.0 - decay_fraction));
    return s <= from ? lr : lr + (low - lr) * progress(from);
  }
  fail("schedule.decay: got '{}', expected cosine, linear, polynomial, constant, wsd or inverse_sqrt", decay);
}

}  // namespace athanor::optim
