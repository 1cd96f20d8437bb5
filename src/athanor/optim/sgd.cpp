#include "athanor/optim/sgd.h"

#include "athanor/kernels/table.h"

namespace athanor {

void Sgd::allocate(Arena& arena) {
  for (Param* param : params_)
    momentum_.push_back(zeros(arena, param->master().shape(), Dtype::f32, Category::optimizer));
}

void Sgd::step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step) {
  for (size_t i = 0; i < params_.size(); ++i) {
    Param& param = *params_[i];
    const SgdStep kernel_step{
        .lr = static_cast<float>(step.lr),
        .momentum = static_cast<float>(options_.momentum),
        .weight_decay = param.is_matrix() ? static_cast<float>(options_.weight_decay) : 0.0f,
        .grad_scale = static_cast<float>(step.grad_scale),
    };
    Tensor master = param.master(), kept = param.kept();
    kernels(master).optimizer.sgd(master.queue(), master, momentum_[i],
                                  kept.dtype() == Dtype::f32 ? nullptr : &kept, grad(param), kernel_step);
  }
}

std::vector<Optimizer::State> Sgd::states() {
  std::vector<State> states;
  for (size_t i = 0; i < params_.size(); ++i) states.push_back({"sgd.momentum", params_[i], momentum_[i]});
  return states;
}

}  // namespace athanor
