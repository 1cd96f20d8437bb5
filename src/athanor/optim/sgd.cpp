#include "athanor/optim/sgd.h"

#include "athanor/kernels/table.h"

namespace athanor::optim {

void Sgd::update(std::span<const OptimizerPiece> pieces, const GradOfPiece& grad,
                 const OptimizerStep& step) const {
  std::vector<SgdTensors> tensors;
  for (const OptimizerPiece& piece : pieces)
    tensors.push_back({.master = piece.master,
                       .m = piece.states[0],
                       .value = piece.value(),
                       .grad = grad(piece),
                       .weight_decay = weight_decay_of(piece.param),
                       .to_master = piece.to_master,
                       .to_m = piece.to_state(0),
                       .lr_ratio = lr_ratio_of(piece.param)});
  const Tensor& any = tensors[0].master;
  kernels_of(any).optimizer.sgd(any.queue(), tensors,
                                {.lr = static_cast<float>(step.lr),
                                 .momentum = static_cast<float>(options().momentum),
                                 .grad_scale = static_cast<float>(step.grad_scale)});
}

}  // namespace athanor::optim
