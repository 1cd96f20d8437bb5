// Selective recompute (Korthikanti et al., "Reducing activation recomputation in large transformer models", 2022). A
// value that is cheap to compute (a norm, an activation function, attention) is freed at the end of its block's forward
// pass, and recomputed when the backward pass first needs it.
//
//   auto gelu_of_x = std::make_shared<RecomputedValue>(y, [=] { return gelu(x); }, inputs);
//   gelu_of_x->release();    // frees the memory of y; tensors that share it stay valid objects
//   gelu_of_x->restore();    // computes it again: they hold the same values
//
// Kernels depend on nothing but their inputs, so the values have the same bits. apply() makes a RecomputedValue for
// operations with kCheapToRecompute, on tapes between begin_selective_recompute() and end_selective_recompute().
// Thread rule: that of the Tape.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "athanor/tensor/tensor.h"

namespace athanor::autograd {

// Values that backward needs and that restore() brings back into memory: recomputed ones or offloaded ones.
class Restorable {
 public:
  virtual ~Restorable() = default;
  virtual void restore() = 0;
};

class RecomputedValue final : public Restorable {
 public:
  // `inputs`: of the values that `make` computes from, those that may be out of memory as well.
  RecomputedValue(const Tensor& value, std::function<Tensor()> make,
                  std::vector<std::shared_ptr<Restorable>> inputs)
      : value_(value.storage()), make_(std::move(make)), inputs_(std::move(inputs)) {}

  bool is(const Tensor& value) const { return value_.lock() == value.storage(); }
  void release();
  void restore() override;  // does nothing if the value is in memory, or no tensor refers to it any more

 private:
  std::weak_ptr<Storage> value_;
  std::function<Tensor()> make_;
  std::vector<std::shared_ptr<Restorable>> inputs_;
};

}  // namespace athanor::autograd
