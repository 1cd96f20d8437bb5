#include "athanor/optim/adamw.h"

#include <cmath>

#include "athanor/kernels/table.h"

namespace athanor::optim {

float AdamW::correction(double beta, int64_t update) const {
  return options().bias_correction ? static_cast<float>(1.0 - std::pow(beta, static_cast<double>(update)))
                                   : 1.0f;
}

AdamwStep AdamW::kernel_step(const OptimizerStep& step) const {
  const OptimizerOptions& o = options();
  return {.lr = static_cast<float>(step.lr),
          .beta1 = static_cast<float>(o.beta1),
          .beta2 = static_cast<float>(o.beta2),
          .eps = static_cast<float>(o.eps),
          .correction1 = correction(o.beta1, step.update),
          .correction2 = correction(o.beta2, step.update),
          .grad_scale = static_cast<float>(step.grad_scale)};
}

void AdamW::add_tensors(std::vector<AdamwTensors>& all, const AdamwTensors& tensors,
                        const OptimizerPiece&) const {
  all.push_back(tensors);
}

void AdamW::update(std::span<const OptimizerPiece> pieces, const GradOfPiece& grad,
                   const OptimizerStep& step) const {
  std::vector<AdamwTensors> tensors;
  for (const OptimizerPiece& piece : pieces)
    add_tensors(tensors,
                {.master = piece.master,
                 .m = piece.states[0],
                 .v = piece.states[1],
                 .value = piece.value(),
                 .grad = grad(piece),
                 .weight_decay = weight_decay_of(piece.param),
                 .to_master = piece.to_master,
                 .to_m = piece.to_state(0),
                 .to_v = piece.to_state(1),
                 .lr_ratio = lr_ratio_of(piece.param)},
                piece);
  const Tensor& any = tensors[0].master;
  kernels_of(any).optimizer.adamw(any.queue(), tensors, kernel_step(step));
}

}  // namespace athanor::optim
