// The sigmoid of activations in bf16 where products are made on tiles and leave the vector units the larger part of a
// step: what rounding to bf16 hides (2^-9) is not computed. Powers are good to 2^-18, reciprocals to 2^-14.
#pragma once

#include "athanor/kernels/cpu/bf16/attention.h"
#include "athanor/kernels/cpu/simd/vec.h"

namespace athanor::ATHANOR_ISA {
namespace {
namespace bf16 {

// 1 / (1 + e^-x) and its complement. The power stops short of infinity, which would meet a zero.
[[gnu::always_inline]] inline V sigmoid(V x, V& complement) {
  const V power = min(set1(126.f), x * set1(-kLog2E));
  const V decay = {exp2(power.x, static_cast<__mmask16>(~0u), kExp2)};
  const V s = {_mm512_rcp14_ps((set1(1.f) + decay).x)};
  complement = decay * s;
  return s;
}

}  // namespace bf16
}  // namespace
}  // namespace athanor::ATHANOR_ISA
