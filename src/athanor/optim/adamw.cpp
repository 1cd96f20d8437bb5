#include "athanor/optim/adamw.h"

#include <cmath>

#include "athanor/kernels/table.h"

namespace athanor::optim {

void AdamW::update(std::span<const OptimizerPiece> pieces, const GradOfPiece& grad,
                   const OptimizerStep& step) const {
  std::vector<AdamwTensors> tensors;
  for (const OptimizerPiece& piece : pieces)
    tensors.push_back({.master = piece.master,
                       .m = piece.states[0],
                       .v = piece.states[1],
                       .value = piece.value(),
                       .grad = grad(piece),
                       .weight_decay = weight_decay_of(piece.param),
                       .to_master = piece.to_master,
                       .to_m = piece.to_state(0),
                       .to_v = piece.to_state(1)});
  const auto update = static_cast<double>(step.update);
  const OptimizerOptions& o = options();
  const Tensor& any = tensors[0].master;
  kernels_of(any).optimizer.adamw(any.queue(), tensors,
                                  {.lr = static_cast<float>(step.lr),
                                   .beta1 = static_cast<float>(o.beta1),
                                   .beta2 = static_cast<float>(o.beta2),
                                   .eps = static_cast<float>(o.eps),
                                   .correction1 = static_cast<float>(1.0 - std::pow(o.beta1, update)),
                                   .correction2 = static_cast<float>(1.0 - std::pow(o.beta2, update)),
                                   .grad_scale = static_cast<float>(step.grad_scale)});
}

}  // namespace athanor::optim
