// Stochastic gradient descent with momentum, no dampening: kernels/optimizer.h has the formulas.
#pragma once

#include "athanor/optim/optimizer.h"

namespace athanor {

class Sgd : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, std::vector<Param*> params)
      : options_(options), params_(std::move(params)) {}
  void allocate(Arena& arena) override;
  void step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step) override;
  std::vector<State> states() override;

 private:
  OptimizerOptions options_;
  std::vector<Param*> params_;
  std::vector<Tensor> momentum_;
};

}  // namespace athanor
