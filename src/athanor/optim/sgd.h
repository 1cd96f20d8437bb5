// Stochastic gradient descent with momentum, no dampening: kernels/optimizer.h has the formulas.
#pragma once

#include "athanor/optim/optimizer.h"

namespace athanor {

class Sgd final : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, std::vector<Param*> params, OptimizerStateOptions state = {})
      : Optimizer(options, {std::move(params), {{.name = "sgd.momentum"}}, std::move(state)}) {}

 protected:
  void update(std::span<const OptimizerPiece> pieces, const GradOfPiece& grad,
              const OptimizerStep& step) const override;
};

}  // namespace athanor
