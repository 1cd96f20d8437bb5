// The sigmoid of bf16 activations, no more accurate than rounding to bf16 (2^-9) can show: powers to 2^-18, reciprocals
// to 2^-14. Worth it because with products on tiles the vector units take the larger part of a step.
#pragma once

#include "athanor/kernels/cpu/bf16/attention.h"
#include "athanor/kernels/cpu/simd/vec.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {
namespace bf16 {

// 1 / (1 + e^-x) and its complement. The power is clamped below infinity: infinity times zero would be NaN.
[[gnu::always_inline]] inline V sigmoid(V x, V& complement) {
  const V power = min(set1(126.f), x * set1(-kLog2E));
  const V decay = {exp2(power.x, static_cast<__mmask16>(~0u), kExp2)};
  const V s = {_mm512_rcp14_ps((set1(1.f) + decay).x)};
  complement = decay * s;
  return s;
}

}  // namespace bf16
}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
