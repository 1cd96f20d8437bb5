#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::kernels {

const RowTable ref_rows = {
    "ref",
    {ref::rms_norm<float>(), ref::rms_norm<Bf16>(), ref::rms_norm<F16>()},
    {ref::layer_norm<float>(), ref::layer_norm<Bf16>(), ref::layer_norm<F16>()},
    {ref::rope<float>(), ref::rope<Bf16>(), ref::rope<F16>()},
    {ref::swiglu<float>(), ref::swiglu<Bf16>(), ref::swiglu<F16>()},
    {ref::gelu<float>(), ref::gelu<Bf16>(), ref::gelu<F16>()},
    {ref::dropout<float>(), ref::dropout<Bf16>(), ref::dropout<F16>()},
    {ref::embedding<float>(), ref::embedding<Bf16>(), ref::embedding<F16>()},
    {ref::cross_entropy<float>(), ref::cross_entropy<Bf16>(), ref::cross_entropy<F16>()},
    {ref::attention<float>(), ref::attention<Bf16>(), ref::attention<F16>()},
    {ref::elementwise<float>(), ref::elementwise<Bf16>(), ref::elementwise<F16>()},
    {ref::optimizer<float>(), ref::optimizer<Bf16>(), ref::optimizer<F16>()},
    {ref::gemm<float>(), ref::gemm<Bf16>(), ref::gemm<F16>()},
    {ref::token_rows<float>(), ref::token_rows<Bf16>(), ref::token_rows<F16>()},
    ref::router(),
    ref::f32(),
};

}  // namespace athanor::kernels
