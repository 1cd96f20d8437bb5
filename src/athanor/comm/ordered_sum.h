// The one addition of all collectives: element by element, in the order of the inputs.
//
//   out[i] = ((in[0][i] + in[1][i]) + in[2][i]) + ...
//
// f32 and bf16 in f32 (bf16 rounded once, at the end), f64 in f64, i64 modulo 2^64.
// Memory: `out` may be one of the inputs, exactly.
#pragma once

#include <cstdint>
#include <span>

#include "athanor/tensor/dtype.h"

namespace athanor {

void ordered_sum(std::span<const void* const> in, void* out, int64_t count, Dtype dtype);

// into[i] += from[i]
void add_into(float* into, const float* from, int64_t count);

}  // namespace athanor
