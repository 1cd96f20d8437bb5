// Dynamic loss scaling for f16 (Micikevicius et al., "Mixed precision training", 2018): a step whose
// gradients are not finite is skipped and halves the scale; `window` good steps in a row double it. Other
// precisions keep 1. All of it is in TrainState, so a resumed run goes on with the same scale.
#pragma once

#include <cstdint>

namespace athanor {

struct LossScale {
  double scale = 1.0;
  int64_t good_steps = 0;
  bool dynamic = false;
  int64_t window = 1000;

  static constexpr double kMax = 16777216.0, kMin = 1.0 / 16777216.0;

  // Whether the step may be applied; updates the scale.
  bool update(bool gradients_finite) {
    if (!dynamic) return true;
    if (!gradients_finite) {
      scale = scale / 2 < kMin ? kMin : scale / 2;
      good_steps = 0;
      return false;
    }
    if (++good_steps >= window) {
      scale = scale * 2 > kMax ? kMax : scale * 2;
      good_steps = 0;
    }
    return true;
  }
};

}  // namespace athanor
