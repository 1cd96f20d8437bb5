// Not finite is never success: what is looked for in the state of a run, and the error that ends it.
//
//   if (const auto name = first_not_finite(training.tensors(), group)) throw NotFinite("step 7: '" + *name + "' ...");
//
// A pass over the state costs about what reading it once does: at saves and at the start, never in a step. Thread rule:
// one thread per rank. Errors: those of the group.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/observe/metrics.h"
#include "athanor/parallel/not_finite.h"
#include "athanor/tensor/dtype.h"
#include "athanor/train/step.h"

namespace athanor {

constexpr float kLargestFloat = std::numeric_limits<float>::max();

// The largest magnitude that a type of computing holds.
float largest_value(Dtype compute);

bool all_within(const float* values, int64_t count, float largest);

// The first tensor with a value that is not a number or of a magnitude above `largest`, the same answer on all ranks of
// the group: weights before optimizer state, each in the order in which the ranks hold them. `part`: only those
// whose names contain it.
std::optional<std::string> first_not_finite(const std::vector<NamedTensor>& tensors, Group& group,
                                            float largest = kLargestFloat, const std::string& part = "");

// What of a step says that going on makes nothing better; "": nothing. Losses that are not finite, and an f16 step that
// overflows although the loss scale is at its least.
std::string fault_of_step(const StepResult& result, const StepMetrics& metrics);

// `what`, with the first tensor that explains it.
std::string name_not_finite(const std::string& what, const std::vector<NamedTensor>& tensors, Group& group,
                            Dtype compute);

// The newest of a run's checkpoints before `step` that is whole and finite; "" where there is none.
std::string last_finite_checkpoint(Env& env, const std::string& folder, int64_t before_step);

}  // namespace athanor
