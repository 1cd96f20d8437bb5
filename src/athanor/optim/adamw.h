// AdamW (Loshchilov & Hutter, "Decoupled weight decay regularization", 2019): kernels/optimizer.h has the
// formulas.
#pragma once

#include "athanor/optim/optimizer.h"

namespace athanor {

class AdamW : public Optimizer {
 public:
  AdamW(const OptimizerOptions& options, std::vector<Param*> params)
      : options_(options), params_(std::move(params)) {}
  void allocate(Arena& arena) override;
  void step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step) override;
  std::vector<State> states() override;

 private:
  OptimizerOptions options_;
  std::vector<Param*> params_;
  std::vector<Tensor> m_, v_;
};

}  // namespace athanor
