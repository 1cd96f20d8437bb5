// Picks the next token from logits: greedy, temperature, top-k, top-p (Holtzman et al., 2020).
//
//   const int32_t id = sample_token(logits, {.temperature = 0.8, .top_p = 0.95}, uniform);
//
// Deterministic: the same logits, options and uniform number in [0, 1) give the same token. Of equal logits the smaller
// id comes first. Thread rule: pure function.
#pragma once

#include <cstdint>
#include <span>

#include "athanor/base/namespaces.h"

namespace athanor::evaluate {

struct SamplingOptions {
  double temperature = 1.0;  // 0: greedy, the largest logit
  int64_t top_k = 0;         // only the k most likely tokens; 0: all
  double top_p = 1.0;        // only the smallest set of most likely tokens whose probabilities reach p
};

// Error if the options are out of range or no logit is finite.
int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, double uniform);

}  // namespace athanor::evaluate
