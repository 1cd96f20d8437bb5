// exp and log on vectors within 2 units in the last place of f32, sigmoid within 3; NaN gives NaN. The
// coefficients are minimax fits (Lawson's algorithm) on the reduced ranges. Divisions are exact ones: the
// approximate reciprocals of processors differ between makers, and so would results.
#pragma once

#include "athanor/kernels/cpu/simd/vec.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

// For softmax and sigmoids: below -87.3 the result is 0 (no subnormals, which are slow), above 88 it stays
// e^88.
[[gnu::always_inline]] inline V exp(V x) {
  const V shifter = set1(0x1.8p23f);  // adding it rounds to an integer, which lands in the low bits
  const V shifted = fma(x, set1(0x1.715476p0f), shifter);
  const V n = shifted - shifter;
  V r = fnma(n, set1(0x1.62e43p-1f), x);  // ln 2 in two parts
  r = fnma(n, set1(-0x1.05c61p-29f), r);
  V q = set1(0.001381459878757596f);
  q = fma(q, r, set1(0.008368716575205326f));
  q = fma(q, r, set1(0.04166838899254799f));
  q = fma(q, r, set1(0.1666652113199234f));
  q = fma(q, r, set1(0.4999999403953552f));
  const V p = fma(r * r, q, r) + set1(1.f);
  const V power = float_of(shift_left<23>(bits_of(shifted)) + set1i(0x3f800000u));  // 2^n
  return select(less(x, set1(-87.3f)), zero(), p * power);
}

// For x >= 2^-126: x = 2^n m, log m = 2 atanh((m - 1) / (m + 1)) with m in [sqrt(1/2), sqrt(2)).
[[gnu::always_inline]] inline V log(V x) {
  const VI bits = bits_of(x) - set1i(0x3f3504f3u);
  const VI exponent = shift_right<23>(bits + set1i(0x3f800000u)) - set1i(127);
  const V m = float_of((bits & set1i(0x007fffffu)) + set1i(0x3f3504f3u));
  const V n = to_float(exponent);
  const V f = (m - set1(1.f)) / (m + set1(1.f)), t = f * f;
  V q = set1(0.29871997237205505f);
  q = fma(q, t, set1(0.39977532625198364f));
  q = fma(q, t, set1(0.6666677594184875f));
  const V series = fma(q * t, f, fma(n, set1(-0x1.05c61p-29f), f + f));
  return select(is_nan(x), x, fma(n, set1(0x1.62e43p-1f), series));
}

// 1 / (1 + e^-x), and its complement 1 - sigmoid(x) = sigmoid(-x), both without cancellation.
[[gnu::always_inline]] inline V sigmoid(V x, V& complement) {
  const V decay = exp(minus_abs(x));
  const V large = set1(1.f) / (set1(1.f) + decay), small = decay * large;
  const Mask negative = less(x, zero());
  complement = select(negative, large, small);
  return select(negative, small, large);
}

}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
