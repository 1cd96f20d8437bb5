// Gradient check by central differences: compares an operation's backward with its forward.
//
//   const auto report = check_gradients(inputs, weights,
//                                       [&](Tape& tape, std::span<const Var> x) { return op(x[0], w); });
//   EXPECT_LT(report.worst, 1e-3) << report.where;
//
// The scalar differentiated is sum_i c_i y_i with fixed pseudo-random c, so every element of every gradient counts.
// Each element of every input and weight is moved by +-eps. f32 on the CPU. Thread rule: one thread.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "athanor/autograd/tape.h"

namespace athanor::tests {

struct GradientReport {
  double worst = 0.0;  // largest |analytic - numeric| / max(1, largest |numeric| of that tensor)
  std::string where;   // "input 0 [17]: analytic 0.25, numeric 0.24"
};

GradientReport check_gradients(std::vector<Tensor> inputs, std::vector<Weight*> weights,
                               const std::function<Var(Tape&, std::span<const Var>)>& function,
                               float eps = 1e-2f, PassContext context = {});

}  // namespace athanor::tests
