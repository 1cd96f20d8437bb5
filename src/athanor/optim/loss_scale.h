// Dynamic loss scaling for f16 (Micikevicius et al., "Mixed precision training", 2018). A step whose gradients are not
// finite is skipped and halves the scale; `window` good steps in a row double it. Other precisions keep a scale of 1.
//
//   LossScale scale{.scale = 65536.0, .dynamic = true};
//   const bool apply = scale.update(gradients_finite);      // false: skip the update
//
// It is part of TrainState, so a resumed run continues with the same scale. Thread rule: plain data.
#pragma once

#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::optim {

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

}  // namespace athanor::optim
