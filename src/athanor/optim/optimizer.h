// Optimizers: state per parameter, and a step that updates each parameter in one pass.
//
//   auto optimizer = make_optimizer(options, model.params());
//   optimizer->allocate(arena);
//   optimizer->step(gradients, {.update = n, .lr = lr, .grad_scale = scale});   // every step
//
// The gradient of a parameter is a sum over tokens. grad_scale combines 1 / tokens, 1 / loss scale and the clipping
// factor, and is applied inside the pass. Weight decay applies to matrices (two or more dimensions), unless a group of
// parameters has one of its own (param_groups.h). With ZeRO an optimizer sees only this rank's shard of each parameter. Checkpoints keep state under names ("adam.m", "adam.v",
// "sgd.momentum") as f32 of the master's shape, whatever its format and place in memory (optimizer_state.h). Errors:
// Error; IoError with offloaded state. Thread rule: one thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/comm/group.h"
#include "athanor/optim/optimizer_state.h"
#include "athanor/optim/param_groups.h"

namespace athanor::optim {

struct OptimizerOptions {
  std::string name = "adamw";  // adamw, lamb, sgd
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  bool bias_correction = true;  // of both moments; false is BERT's Adam (Devlin et al., 2019)
  double momentum = 0.9;
  double weight_decay = 0.1;
  std::vector<ParamGroup> groups = {};
};

// The ranks over which the elements of a parameter are spread; null: this one has them all.
struct TensorRanks {
  Group* shards = nullptr;  // each has a range of the elements of this rank's part (ZeRO)
  Group* parts = nullptr;   // each has a part of the logical tensor (tensor parallelism)
};

struct OptimizerStep {
  int64_t update = 1;  // number of this update, from 1; skipped steps do not count (bias correction)
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

  // Allocates and clears the state of every parameter. The parameters must be allocated.
  virtual void allocate(Arena& arena) { state_.allocate(arena); }
  // grad(param): the parameter's reduced gradient, f32, of its master's shape.
  virtual void step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step);
  void carry_over() { state_.carry_over(); }  // in a step without an update (optimizer_state.h)

  // One kind of state of one parameter, as checkpoints see it: f32, elements of param->range().
  struct State {
    std::string name;
    Param* param;
    Tensor tensor;  // undefined where the state is offloaded or 8-bit: then read() and write()
    OptimizerState* keeper;
    size_t param_index, state_index;

    void read(int64_t first, int64_t count, float* values) const {
      keeper->read(param_index, state_index, first, count, values);
    }
    // Sets the first `count` elements; the rest is padding and becomes zero.
    void write(const float* values, int64_t count) const {
      keeper->write(param_index, state_index, values, count);
    }
  };
  std::vector<State> states();  // in the order of the parameters

 protected:
  using GradOfPiece = std::function<Tensor(const OptimizerPiece&)>;
  // Updates master, states and value of some pieces with their gradients.
  virtual void update(std::span<const OptimizerPiece> pieces, const GradOfPiece& grad,
                      const OptimizerStep& step) const = 0;
  const OptimizerOptions& options() const { return options_; }
  // Calls visit with every piece, to look at: nothing may be changed (OptimizerState::read_pieces).
  void read_pieces(const std::function<void(std::span<const OptimizerPiece>)>& visit, bool at_once) {
    state_.read_pieces(visit, at_once);
  }
  const std::vector<Param*>& params() const { return state_.params(); }
  float weight_decay_of(const ParamSpec& param) const;
  float lr_ratio_of(const ParamSpec& param) const;

 private:
  OptimizerOptions options_;
  OptimizerState state_;
};

// The optimizer called options.name; Error listing the known names if it is unknown. Buffers (Param::is_state) get no
// state and are not updated. `ranks_of`: for lamb (lamb.h); null: this rank has all of each parameter.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          const std::vector<std::unique_ptr<Param>>& params,
                                          OptimizerStateOptions state = {},
                                          std::function<TensorRanks(const Param&)> ranks_of = nullptr);

}  // namespace athanor::optim
