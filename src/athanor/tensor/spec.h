// A TensorSpec: what a tensor will be, before it has memory.
//
//   const TensorSpec hidden{"hidden", {B, T, C}, Dtype::bf16};
//   Tensor x = empty(arena, hidden, Category::activations);
//   matches(x, hidden);   // true
//
// Thread rule: plain data.
#pragma once

#include <string>

#include "athanor/tensor/tensor.h"

namespace athanor::tensor {

struct TensorSpec {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::f32;
};

inline Tensor empty(Arena& arena, const TensorSpec& spec, Category category) {
  return empty(arena, spec.shape, spec.dtype, category);
}
inline bool matches(const Tensor& x, const TensorSpec& spec) {
  return x.defined() && x.shape() == spec.shape && x.dtype() == spec.dtype;
}

}  // namespace athanor::tensor
