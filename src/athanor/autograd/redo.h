// Selective recompute (Korthikanti et al., "Reducing activation recomputation in large transformer models", 2022). A
// value that is cheap to compute (a norm, an activation function, attention) is freed at the end of its block's forward
// pass, and recomputed when the backward pass first needs it.
//
//   auto redo = std::make_shared<Redo>(y, [=] { return gelu(x); }, redos_of_x);
//   redo->forget();     // frees y's memory; tensors that share it stay valid objects
//   redo->restore();    // and hold the same values again
//
// Kernels depend on nothing but their inputs, so the values have the same bits. apply() makes a Redo for operations
// with kCheapToRedo, on tapes between begin_redo() and end_redo(). Thread rule: that of the Tape.
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

class Redo final : public Restorable {
 public:
  // `inputs`: of the values that `make` computes from, those that may be out of memory as well.
  Redo(const Tensor& value, std::function<Tensor()> make, std::vector<std::shared_ptr<Restorable>> inputs)
      : value_(value.storage()), make_(std::move(make)), inputs_(std::move(inputs)) {}

  bool is(const Tensor& value) const { return value_.lock() == value.storage(); }
  void forget();
  void restore() override;  // does nothing if the value is in memory, or no tensor refers to it any more

 private:
  std::weak_ptr<Storage> value_;
  std::function<Tensor()> make_;
  std::vector<std::shared_ptr<Restorable>> inputs_;
};

}  // namespace athanor::autograd
