// A step none of whose tokens is a target has no loss and no gradient: it is refused rather than divided by zero. A target
// is negative where the loss mask leaves its token out, or where its sequence is in quarantine (data/batch.h).
//
//   if (tokens == 0) refuse_without_targets(step);
//
// One micro-batch, one sequence or one replica group without a target is fine: it adds nothing.
// Thread rule: any thread. Errors: Error.
#pragma once

#include <cstdint>

#include "athanor/base/check.h"

namespace athanor::parallel::data {

[[noreturn]] inline void refuse_without_targets(int64_t step) {
  throw Error(
      fmt::format("step {}: got no token that counts in the loss, expected at least one", step),
      "the loss masks of the channels leave out all of its tokens, or its sequences are in quarantine: "
      "raise train.global_batch_size or data.seq_len");
}

// The factor from sums over `tokens` targets, whose loss was scaled, to their mean; sums over none are zero.
inline double to_mean_of(double tokens, double loss_scale) {
  return tokens > 0.0 ? 1.0 / (tokens * loss_scale) : 0.0;
}

}  // namespace athanor::parallel::data
