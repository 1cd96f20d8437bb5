// Optimizers: state per parameter, one step over it in one pass.
//
//   auto optimizer = make_optimizer(options, model.params());
//   optimizer->allocate(arena);
//   for each step:  optimizer->step(gradients, {lr, grad_scale});
//
// The gradient of a parameter is a sum over tokens; grad_scale carries 1 / tokens, 1 / loss scale and the
// clipping factor, applied inside the pass. Weight decay applies to matrices (two or more dimensions) only.
// Of a parameter that is kept in part (ZeRO) an optimizer sees that part alone: state and gradient are flat, as its
// master is. State has names ("adam.m", "adam.v", "sgd.momentum") under which checkpoints keep it, f32, of the
// master's shape. Thread rule: one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "athanor/autograd/param.h"

namespace athanor {

struct OptimizerOptions {
  std::string name = "adamw";  // adamw, sgd
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double momentum = 0.9;
  double weight_decay = 0.1;
};

struct OptimizerStep {
  int64_t update = 1;  // which update this is, from 1, skipped ones not counted (bias correction)
  double lr = 0.0;
  double grad_scale = 1.0;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Allocates state, cleared, for every parameter; their masters must be there.
  virtual void allocate(Arena& arena) = 0;
  // grad(param) is the parameter's reduced gradient, f32, of its master's shape.
  virtual void step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step) = 0;

  struct State {
    std::string name;
    Param* param;
    Tensor tensor;  // f32, of param->range()
  };
  virtual std::vector<State> states() = 0;  // in the order of the parameters
};

// Error naming the known ones if the name is unknown. Parameters that are state (Param::is_state) are left alone.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          const std::vector<std::unique_ptr<Param>>& params);

}  // namespace athanor
