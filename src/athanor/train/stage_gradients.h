// What several ranks hold of one model in common, once the gradients of a step are summed over its grains: partial
// gradients of a tensor group and of tied embeddings are added up, and the norm is that of the whole model.
//
//   StageGradients stage(model, {.tensor = &tp, .declared = of_the_whole_model});
//   stage.sum_shared(grad_of, [](Param& param, const Tensor& sum) { ... it was changed in place ... });
//   const double norm = stage.norm(squares_of_params, /*may_overflow=*/false, step);
//
// Gradients may be any same piece of each rank's (a shard of ZeRO). Collective over the groups.
// Errors: theirs; a gradient that is not finite, unless it may overflow, naming step and parameter. Thread rule: one thread.
#pragma once

#include <functional>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/nn/module.h"

namespace athanor {

struct StageGroups {
  Group* tensor = nullptr;  // the ranks that share this model (tp); null: this rank has all of it
  Group* experts =
      nullptr;  // the ranks that share the experts of a layer (ep); null: their gradients are as all others
  Group* pipeline = nullptr;  // those with its other layers; null: this rank has all of them
  // The ranks of the first and the last stage, where tied embeddings lie on two; else null.
  Group* ends = nullptr;
  std::vector<const Param*> declared =
      {};  // parameters of the whole model: the order in which norms are added
};

class StageGradients {
 public:
  StageGradients(const Module& model, StageGroups groups) : model_(model), groups_(std::move(groups)) {}

  void sum_shared(const std::function<Tensor(Param&)>& grad_of,
                  const std::function<void(Param&, const Tensor&)>& changed) const;
  // `squares`: of the gradients of model.params(), in their order, of whole parameters or of this rank's parts of them.
  double norm(const std::vector<double>& squares, bool may_overflow, int64_t step) const;

 private:
  [[noreturn]] void refuse(const std::vector<double>& squares, int64_t step) const;
  std::vector<double> squares_of_stage(const std::vector<double>& of_params) const;

  const Module& model_;
  StageGroups groups_;
};

}  // namespace athanor
