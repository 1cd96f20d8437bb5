// Gradient sums over tensor and pipeline ranks, and the global gradient norm. Runs after data parallelism has summed
// the gradients of a step over its micro-batches. Sums partial gradients of a tensor group and gradients of tied
// embeddings.
//
//   StageGradients stage(model, {.tensor = &tp, .declared = of_the_whole_model});
//   stage.sum_shared(grad_of, [](Param& param, const Tensor& sum) { ... it was changed in place ... });
//   const double norm = stage.norm(squares_of_params, /*may_overflow=*/false, step);
//
// Gradients may be shards (ZeRO), as long as every rank passes the same range. Collective over the groups. Errors:
// those of the groups; NotFinite naming step and parameter for a gradient that is not finite, unless it may overflow
// (f16 loss scaling). Thread rule: one thread.
#pragma once

#include <functional>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/nn/module.h"

namespace athanor::engine {

struct StageGroups {
  Group* tensor = nullptr;    // tensor-parallel ranks (tp); null: one rank has whole layers
  Group* experts = nullptr;   // expert-parallel ranks (ep); null: expert gradients are treated as all others
  Group* pipeline = nullptr;  // pipeline ranks (pp); null: one rank has all layers
  // Embedding group: the ranks of the first and the last stage, where tied embeddings lie on both; else null.
  Group* ends = nullptr;
  std::vector<const ParamSpec*> declared = {};  // all of the model, in the order in which norms are added
};

class StageGradients {
 public:
  StageGradients(const Module& model, StageGroups groups) : model_(model), groups_(std::move(groups)) {}

  // Sums grad_of(param) in place for partial and tied parameters, then calls changed(param, sum) for each of them.
  void sum_shared(const std::function<Tensor(Param&)>& grad_of,
                  const std::function<void(Param&, const Tensor&)>& changed) const;
  // The norm over the whole model. `squares`: the gradient's sum of squares for each of model.params(), in order, of
  // whole parameters or of this rank's tensor-parallel parts.
  double norm(const std::vector<double>& squares, bool may_overflow, int64_t step) const;

 private:
  [[noreturn]] void refuse(const std::vector<double>& squares, int64_t step) const;
  std::vector<double> squares_of_stage(const std::vector<double>& of_params) const;

  const Module& model_;
  StageGroups groups_;
};

}  // namespace athanor::engine
