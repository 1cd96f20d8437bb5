// A value that is cheap to make again (a norm, an activation function, attention): forgotten at the end of the
// forward pass of its block, made again when the backward pass first needs it ("selective recompute",
// Korthikanti et al., "Reducing activation recomputation in large transformer models", 2022).
//
//   auto redo = std::make_shared<Redo>(y, [=] { return gelu(x); }, redos_of_x);
//   redo->forget();     // y's memory is free; the tensors that share it stay
//   redo->restore();    // and hold the same values again
//
// Kernels depend on nothing but their inputs, so the values have the same bits. apply() makes these for
// operations that say kCheapToRedo, on tapes that redo. Thread rule: that of the Tape.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "athanor/tensor/tensor.h"

namespace athanor {

// Values that backward needs and that are not in memory until they are asked for.
class Restorable {
 public:
  virtual ~Restorable() = default;
  virtual void restore() = 0;
};

class Redo final : public Restorable {
 public:
  // `inputs`: those of what `make` computes from, which may be forgotten as well.
  Redo(const Tensor& value, std::function<Tensor()> make, std::vector<std::shared_ptr<Restorable>> inputs)
      : value_(value.storage()), make_(std::move(make)), inputs_(std::move(inputs)) {}

  bool is(const Tensor& value) const { return value_.lock() == value.storage(); }
  void forget();
  void restore() override;  // nothing if it is there, or if nobody needs it any more

 private:
  std::weak_ptr<Storage> value_;
  std::function<Tensor()> make_;
  std::vector<std::shared_ptr<Restorable>> inputs_;
};

}  // namespace athanor
