// The f32 product of small matrices that attention and gemm are made of.
//
//   c [m, 16 * vectors] = a [m, k] . b [k, 16 * vectors]        (or += with `add`)
//
// Element (i, l) of a is a[i * a_row + l * a_col], of b (l, j) b[l * b_row + j], of c (i, j) c[i * c_row +
// j]. b and c are whole vectors wide. Every element of c is one chain of fused multiply-adds over ascending
// l, the same on every instruction set. Fast where b stays in the first-level cache (64 x 64).
#pragma once

#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::kernels::ATHANOR_ISA {

void multiply(float* c, int64_t c_row, const float* a, int64_t a_row, int64_t a_col, const float* b,
              int64_t b_row, int64_t m, int64_t vectors, int64_t k, bool add);

}  // namespace athanor::kernels::ATHANOR_ISA
