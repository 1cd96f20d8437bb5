// The inner loops of the sums, as plain functions: one table for each instruction set, the same bits from all.
// Files compiled for one instruction set include this and nothing of the rest of the program.
#pragma once

#include <cstdint>

namespace athanor {

// out[j][i] = in[0][i] + in[1][i] + ... for all j, in f32; an output may be one of the inputs, exactly.
struct SumRows {
  using Sum = void (*)(const void* const* in, int num_in, void* const* out, int num_out, int64_t count);
  Sum f32, bf16;
};

extern const SumRows avx2_sum_rows, avx512_sum_rows;

}  // namespace athanor
