// Parameters: a model declares them; parallelism, optimizers and checkpoints attach their state to them. A Param is its
// specification and its storage, and has the uses.
//
//   Param q("blocks.0.attn.q.weight", {C, C}, Init::normal(0.02));   // declared: allocates nothing
//   Weight& use = q.add_use("attn");                                 // one per place that computes with it
//   q.allocate(arena, Dtype::bf16, /*with_master=*/true);
//   q.initialize(seed);
//
// Each use of a shared parameter (tied embeddings) accumulates a gradient of its own; once per step the uses are added
// in declaration order (law 1). Errors: Error. Thread rule: one thread per Param; any thread may read values.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "athanor/autograd/param_spec.h"
#include "athanor/autograd/param_storage.h"
#include "athanor/autograd/weight.h"

namespace athanor::autograd {

class Param : public ParamSpec, public ParamStorage {
 public:
  Param(std::string name, const Shape& shape, Init init, ParamKind kind = ParamKind::weight, int unit = 0)
      : ParamSpec(std::move(name), shape, init, kind, unit),
        ParamStorage(static_cast<const ParamSpec&>(*this)) {}

  void shard(const Shard& shard) {
    check(!defined(), "param: '{}' has memory already, expected shard() before allocate()", name());
    ParamSpec::shard(shard);
  }

  Weight& add_use(const std::string& use, int unit = 0) {
    return *uses_.emplace_back(std::make_unique<Weight>(*this, use, unit));
  }
  const std::vector<std::unique_ptr<Weight>>& uses() const { return uses_; }
  size_t num_uses() const { return uses_.size() + uses_elsewhere_.size(); }  // on all ranks
  // Keeps the uses for whose unit `here` is true; the others belong to other ranks (pipeline stages).
  void keep_uses(const std::function<bool(int unit)>& here);
  // Whether this rank has only uses outside of the parameter's own unit: the last pipeline stage's copy of a tied
  // table.
  bool is_second_copy() const { return !uses_.empty() && uses_.front()->unit() != unit(); }

 private:
  std::vector<std::unique_ptr<Weight>> uses_, uses_elsewhere_;
};

inline const Tensor& Weight::value() const {
  check(param_.defined(), "weight: '{}' is declared but has no memory yet", param_.name());
  return param_.value();
}

}  // namespace athanor::autograd
