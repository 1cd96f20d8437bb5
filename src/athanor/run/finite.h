// NaN and infinity end a run: the checks for them in state and metrics, and the text of the error.
//
//   if (const auto name = first_not_finite(training.tensors(), group)) throw NotFinite("step 7: '" + *name + "' ...");
//
// A check of the state costs about one read of it. It runs at saves and at the start, never in a step. Thread rule: one
// thread per rank. Errors: those of the group.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/engine/step.h"
#include "athanor/observe/metrics.h"
#include "athanor/parallel/data/not_finite.h"
#include "athanor/tensor/dtype.h"

namespace athanor::run {

constexpr float kLargestFloat = std::numeric_limits<float>::max();

// The largest finite value of the compute dtype.
float largest_value(Dtype compute);

bool all_within(const float* values, int64_t count, float largest);

// The name of the first tensor with a NaN or a magnitude above `largest`; all ranks of the group get the same answer.
// Weights come before optimizer state, each in the order in which the ranks hold them. `part`: only tensors whose names
// contain it are checked.
std::optional<std::string> first_not_finite(const std::vector<NamedTensor>& tensors, Group& group,
                                            float largest = kLargestFloat, const std::string& part = "");

// Why training cannot recover after this step; "" where it can. Two faults: a loss is not finite, or an f16 step
// overflows although the loss scale is already at its minimum.
std::string fault_of_step(const StepResult& result, const StepMetrics& metrics);

// `what`, followed by the name of the first tensor that explains it. Collective over the group.
std::string name_not_finite(const std::string& what, const std::vector<NamedTensor>& tensors, Group& group,
                            Dtype compute);

// The newest checkpoint of a run before step `before_step` that is complete and finite; "" where there is none.
std::string last_finite_checkpoint(Env& env, const std::string& folder, int64_t before_step);

}  // namespace athanor::run
