// The reference row functions: plain loops over one element type. They are the documentation beside the contracts in
// kernels/, the oracle of the tests, and the fallback where there is no fast function. They are never removed.
//
// One file per operation fills one struct of rows.h for T = float, Bf16 or F16. Arithmetic is f32; sums along a row are
// f64, so that the oracle is more accurate than the functions tested against it.
#pragma once

#include "athanor/kernels/cpu/rows.h"
#include "athanor/tensor/dtype.h"

namespace athanor::kernels::ref {

template <typename T>
RmsNormRows rms_norm();
template <typename T>
LayerNormRows layer_norm();
template <typename T>
RopeRows rope();
template <typename T>
SwigluRows swiglu();
template <typename T>
GeluRows gelu();
template <typename T>
DropoutRows dropout();
template <typename T>
EmbeddingRows embedding();
template <typename T>
CrossEntropyRows cross_entropy();
template <typename T>
AttentionRows attention();
template <typename T>
ElementwiseRows elementwise();
template <typename T>
OptimizerRows optimizer();
template <typename T>
GemmRows gemm();
template <typename T>
TokenRows token_rows();
RouterRows router();
F32Rows f32();

template <typename T>
const T* in(const void* x) {
  return static_cast<const T*>(x);
}
template <typename T>
T* out(void* x) {
  return static_cast<T*>(x);
}

}  // namespace athanor::kernels::ref
