// The inner loops of ordered_sum as plain functions: one table for each instruction set, with the same bits. Files that
// are compiled for one instruction set include this header and nothing else of the program.
#pragma once

#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::comm {

// out[j][i] = in[0][i] + in[1][i] + ... for all j, in f32; an output may be exactly one of the inputs.
struct SumRows {
  using Sum = void (*)(const void* const* in, int num_in, void* const* out, int num_out, int64_t count);
  Sum f32, bf16;
};

extern const SumRows avx2_sum_rows, avx512_sum_rows;

}  // namespace athanor::comm
