// A weight: one use of a parameter, with a gradient slot of its own. Two uses of one parameter (tied embeddings) are two
// weights.
//
//   Weight& use = param.add_use("attn");
//   kernels_of(y).gemm.nt(y.queue(), y, x, use.value(), /*bias=*/nullptr);   // forward
//   use.grad();                                                              // backward adds to it
//
// Errors: Error where the parameter has no memory. Thread rule: that of the Param.
#pragma once

#include <string>
#include <utility>

#include "athanor/autograd/sources.h"
#include "athanor/tensor/tensor.h"

namespace athanor::autograd {

class Param;

// One use of a parameter. Ops save a Weight&, never its tensor, so that a sharded parameter can be freed and unsharded
// again between forward and backward (ZeRO-3).
class Weight {
 public:
  Weight(Param& param, std::string use, int unit) : param_(param), use_(std::move(use)), unit_(unit) {}
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;

  Param& param() const { return param_; }
  const std::string& use() const { return use_; }
  int unit() const { return unit_; }  // of the model, in which this use is (nn/module.h)
  const Tensor& value() const;        // T, the param's shape
  // The gradient slot, f32, the param's shape; backward adds to it.
  Tensor& grad();
  // For ops that can overwrite the slot: `add` is false where nothing was added since begin_grad().
  struct GradSlot {
    Tensor& tensor;
    bool add;
  };
  GradSlot grad_slot();
  // For ops that add only to rows `ids` (embeddings): a row-sparse gradient. If nothing else is added to the slot, the
  // other rows need neither be cleared nor summed.
  Tensor& grad_rows(const Tensor& ids);
  bool knows_rows() const { return zero_elsewhere_; }  // the slot is zero outside those rows
  void move_rows(Tensor& sum);                         // then: adds them to `sum`, leaves the slot zero
  void set_grad(Tensor slot);
  void drop_grad();  // frees the slot; the next use gets another from the source
  void set_grad_source(GradSource* source) { source_ = source; }
  void begin_grad() { begun_ = false; }  // the slot's content is stale from here on
  void end_grad() {                      // zeroes the slot if nothing was added to it
    if (!begun_) grad();
  }
  // Called by the operation that uses the weight when it has added the gradient of a micro-batch: tells the source.
  void grad_ready(int64_t micro_batch) {
    if (source_ != nullptr) source_->grad_ready(*this, micro_batch);
  }

 private:
  Param& param_;
  std::string use_;
  int unit_;
  GradSource* source_ = nullptr;
  Tensor grad_;
  bool begun_ = true;
  bool zero_elsewhere_ = false;  // grad_ is zero outside rows_
  Tensor rows_;                  // ids of grad_rows()
};

}  // namespace athanor::autograd
