// Stochastic gradient descent with momentum, without dampening. kernels/optimizer.h has the formulas.
//
//   Sgd optimizer({.momentum = 0.9}, params);
//
// State per element: sgd.momentum, f32 or 8 bits. Errors and thread rule: as Optimizer.
#pragma once

#include "athanor/optim/optimizer.h"

namespace athanor::optim {

class Sgd final : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, std::vector<Param*> params, OptimizerStateOptions state = {})
      : Optimizer(options, {std::move(params), {{.name = "sgd.momentum"}}, std::move(state)}) {}

 protected:
  void update(std::span<const OptimizerPiece> pieces, const GradOfPiece& grad,
              const OptimizerStep& step) const override;
};

}  // namespace athanor::optim
