// Gradient sums over tensor and pipeline ranks, and the global gradient norm. Runs after data parallelism has summed
// the gradients of a step over its micro-batches. Sums partial gradients of a tensor group and gradients of tied
// embeddings.
//
//   StageGradients stage(model, {.tensor = &tp, .declared = of_the_whole_model});
//   stage.sum_shared(grad_of, [](Param& param, const Tensor& sum) { ... it was changed in place ... });
//   const StageGradients::Norm norm = stage.norm(squares_of_params);
//   if (some_rank_is_not_finite) say(stage.not_finite(norm));          // "the gradient of 'head' is not finite"
//
// Gradients may be shards (ZeRO), as long as every rank passes the same range. Collective over the groups. Errors:
// those of the groups. Thread rule: one thread.
#pragma once

#include <functional>
#include <string>
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
  struct Norm {
    double value = 0.0;
    std::vector<double> squares = {};  // of each parameter of the model
  };
  // The norm over the whole model. `squares`: the gradient's sum of squares for each of model.params(), in order, of
  // whole parameters or of this rank's tensor-parallel parts.
  Norm norm(const std::vector<double>& squares) const;
  // Names the first gradient that is not finite, the same one on all tensor-parallel ranks; "": all are. Collective.
  std::string not_finite(const Norm& norm) const;

 private:
  std::vector<double> squares_of_stage(const std::vector<double>& of_params) const;

  const Module& model_;
  StageGroups groups_;
};

}  // namespace athanor::engine
