#include "athanor/optim/sgd.h"

#include "athanor/kernels/table.h"

namespace athanor {

void Sgd::allocate(Arena& arena) {
  for (Param* param : params_)
    momentum_.push_back(zeros(arena, param->master().shape(), Dtype::f32, Category::optimizer));
}

void Sgd::step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step) {
  if (params_.empty()) return;
  std::vector<SgdTensors> tensors;
  for (size_t i = 0; i < params_.size(); ++i) {
    Param& param = *params_[i];
    tensors.push_back({.master = param.master(),
                       .m = momentum_[i],
                       .value = param.copy_of_master(),
                       .grad = grad(param),
                       .weight_decay = param.is_matrix() ? static_cast<float>(options_.weight_decay) : 0.0f});
  }
  const Tensor& any = tensors[0].master;
  kernels(any).optimizer.sgd(any.queue(), tensors,
                             {.lr = static_cast<float>(step.lr),
                              .momentum = static_cast<float>(options_.momentum),
                              .grad_scale = static_cast<float>(step.grad_scale)});
}

std::vector<Optimizer::State> Sgd::states() {
  std::vector<State> states;
  for (size_t i = 0; i < params_.size(); ++i) states.push_back({"sgd.momentum", params_[i], momentum_[i]});
  return states;
}

}  // namespace athanor
