// Optimizers: state per parameter, one step over it in one pass.
//
//   auto optimizer = make_optimizer(options, model.params());
//   optimizer->allocate(arena);
//   for each step:  optimizer->step(gradients, {lr, grad_scale});
//
// The gradient of a parameter is a sum over tokens; grad_scale carries 1 / tokens, 1 / loss scale and the
// clipping factor, applied inside the pass. Weight decay applies to matrices (two or more dimensions) only.
// Of a parameter that is kept in part (ZeRO) an optimizer sees that part alone. State has names ("adam.m", "adam.v",
// "sgd.momentum") under which checkpoints keep it, as f32 of the master's shape, in whatever form and place it is kept
// here (optimizer_state.h). Thread rule: one thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/optim/optimizer_state.h"

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
  bool grads_stay = true;  // all gradients are in memory, so many parameters may be updated in one call
};

class Optimizer {
 public:
  Optimizer(OptimizerOptions options, OptimizerState state)
      : options_(std::move(options)), state_(std::move(state)) {}
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Room for the state, cleared, of every parameter; they must have memory.
  virtual void allocate(Arena& arena) { state_.allocate(arena); }
  // grad(param) is the parameter's reduced gradient, f32, of its master's shape.
  virtual void step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step);

  // One kind of state of one parameter, in its logical form.
  struct State {
    std::string name;
    Param* param;
    Tensor tensor;  // f32, of param->range(); undefined where it is not in memory in that form
    OptimizerState* keeper;
    size_t param_index, state_index;

    void read(int64_t first, int64_t count, float* values) const {
      keeper->read(param_index, state_index, first, count, values);
    }
    // The first `count` elements; what is left is padding and becomes zero.
    void write(const float* values, int64_t count) const {
      keeper->write(param_index, state_index, values, count);
    }
  };
  std::vector<State> states();  // in the order of the parameters

 protected:
  using GradOfPiece = std::function<Tensor(const OptimizerPiece&)>;
  // master, states and value of some pieces are updated with their gradients.
  virtual void update(std::span<const OptimizerPiece> pieces, const GradOfPiece& grad,
                      const OptimizerStep& step) const = 0;
  const OptimizerOptions& options() const { return options_; }
  float weight_decay_of(const Param& param) const {
    return param.is_matrix() ? static_cast<float>(options_.weight_decay) : 0.0f;
  }

 private:
  OptimizerOptions options_;
  OptimizerState state_;
};

// Error naming the known ones if the name is unknown. Parameters that are state (Param::is_state) are left alone.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          const std::vector<std::unique_ptr<Param>>& params,
                                          OptimizerStateOptions state = {});

}  // namespace athanor
