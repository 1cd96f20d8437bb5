#include "athanor/optim/adamw.h"

#include <cmath>

#include "athanor/kernels/table.h"

namespace athanor {

void AdamW::allocate(Arena& arena) {
  for (Param* param : params_) {
    m_.push_back(zeros(arena, param->master().shape(), Dtype::f32, Category::optimizer));
    v_.push_back(zeros(arena, param->master().shape(), Dtype::f32, Category::optimizer));
  }
}

void AdamW::step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step) {
  if (params_.empty()) return;
  std::vector<AdamwTensors> tensors;
  for (size_t i = 0; i < params_.size(); ++i) {
    Param& param = *params_[i];
    tensors.push_back({.master = param.master(),
                       .m = m_[i],
                       .v = v_[i],
                       .value = param.copy_of_master(),
                       .grad = grad(param),
                       .weight_decay = param.is_matrix() ? static_cast<float>(options_.weight_decay) : 0.0f});
  }
  const auto update = static_cast<double>(step.update);
  const Tensor& any = tensors[0].master;
  kernels(any).optimizer.adamw(any.queue(), tensors,
                               {.lr = static_cast<float>(step.lr),
                                .beta1 = static_cast<float>(options_.beta1),
                                .beta2 = static_cast<float>(options_.beta2),
                                .eps = static_cast<float>(options_.eps),
                                .correction1 = static_cast<float>(1.0 - std::pow(options_.beta1, update)),
                                .correction2 = static_cast<float>(1.0 - std::pow(options_.beta2, update)),
                                .grad_scale = static_cast<float>(step.grad_scale)});
}

std::vector<Optimizer::State> AdamW::states() {
  std::vector<State> states;
  for (size_t i = 0; i < params_.size(); ++i) {
    states.push_back({"adam.m", params_[i], m_[i]});
    states.push_back({"adam.v", params_[i], v_[i]});
  }
  return states;
}

}  // namespace athanor
