// The sum that all collectives use: element by element, in the order of the inputs.
//
//   out[j][i] = ((in[0][i] + in[1][i]) + in[2][i]) + ...      for every output j
//
// f32 and bf16 in f32 (bf16 rounded once, at the end), f64 in f64, i64 modulo 2^64.
// Memory: an output may be exactly one of the inputs. Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "athanor/tensor/dtype.h"

namespace athanor::comm {

void ordered_sum(std::span<const void* const> in, std::span<void* const> out, int64_t count, Dtype dtype);

// into[i] = a[i] + b[i]; `into` may be `a` or `b`.
void add(float* into, const float* a, const float* b, int64_t count);

}  // namespace athanor::comm
