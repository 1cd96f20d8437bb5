// AdamW (Loshchilov & Hutter, "Decoupled weight decay regularization", 2019). kernels/optimizer.h has the formulas.
//
//   AdamW optimizer({.beta1 = 0.9, .beta2 = 0.95}, params);
//
// State per element: adam.m and adam.v, f32 or 8 bits. Errors and thread rule: as Optimizer.
#pragma once

#include "athanor/kernels/optimizer.h"
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
  // Appends what the kernel is called with for one piece.
  virtual void add_tensors(std::vector<AdamwTensors>& all, const AdamwTensors& tensors,
                           const OptimizerPiece& piece) const;
  AdamwStep kernel_step(const OptimizerStep& step) const;
  // 1 - beta^update, by which a moment is divided; 1 without bias correction.
  float correction(double beta, int64_t update) const;
};

}  // namespace athanor::optim
