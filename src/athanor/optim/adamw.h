// AdamW (Loshchilov & Hutter, "Decoupled weight decay regularization", 2019). kernels/optimizer.h has the formulas.
//
//   AdamW optimizer({.beta1 = 0.9, .beta2 = 0.95}, params);
//
// State per element: adam.m and adam.v, f32 or 8 bits. Errors and thread rule: as Optimizer.
#pragma once

#include "athanor/optim/optimizer.h"

namespace athanor::optim {

class AdamW : public Optimizer {
 public:
  AdamW(const OptimizerOptions& options, std::vector<Param*> params, OptimizerStateOptions state = {})
      : Optimizer(options, {std::move(params),
                            {{.name = "adam.m"}, {.name = "adam.v", .codes = CodeMap::root}},
                            std::move(state)}) {}

 protected:
  void update(std::span<const OptimizerPiece> pieces, const GradOfPiece& grad,
              const OptimizerStep& step) const override;
};

}  // namespace athanor::optim
