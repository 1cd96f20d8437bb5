// One block of an f32 product on the bf16 tile registers, computed by one thread (cpu/amx/split.cpp). Raw pointers
// only, as in rows.h.
//
// An f32 is exactly the sum of three bf16, x = x1 + x2 + x3, because 24 bits are three times 8. Of the nine products of
// parts, the six largest are summed in f32. The other three are below 2^-24 of the product, where f32 itself rounds. So
// the result is as accurate as f32 multiply-adds. It takes six times the tile operations of a bf16 product, which is
// still 2.6 times the arithmetic throughput of AVX-512. (Henry, Tang, Heinecke: Leveraging the bfloat16 artificial
// intelligence datatype for higher-precision computations, 2019.)
//
// Differences to f32: an operand that is infinite or beyond 3.38e38 gives NaN. The tile unit takes parts below 2^-126
// as zero, so operands below 2^-110 lose low bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::kernels {

// c [m,n] = a [m,k] . b [k,n] (+ bias [n]), or += where `accumulate`. Element (i, l) of a is at i * a_row + l * a_col,
// (l, j) of b at l * b_row + j * b_col, (i, j) of c at i * c_row + j. One stride of a and one of b is 1. Lengths are
// at least 1. k is summed in ranges of `depth`, a multiple of 32; the sum of each range is added to c.
struct SplitBlock {
  int64_t m, n, k, depth;
  const float* a;
  int64_t a_row, a_col;
  const float* b;
  int64_t b_row, b_col;
  const float* bias;  // may be null
  float* c;
  int64_t c_row;
  bool accumulate;
  std::byte* scratch;  // this thread's own, split_scratch_bytes(n, depth), on a boundary of 64
};

constexpr int64_t kSplitSide = 32;  // rows, columns and k are worked on in units of this
constexpr int64_t kSplitUnit = 3 * kSplitSide * kSplitSide;  // bf16 of a unit of an operand

constexpr int64_t split_scratch_bytes(int64_t n, int64_t depth) {
  const int64_t steps = (depth + kSplitSide - 1) / kSplitSide, panels = (n + kSplitSide - 1) / kSplitSide;
  return ((panels + 1) * steps * kSplitUnit * 2) + 4 * kSplitSide * kSplitSide;
}

namespace amx {
void split_block(const SplitBlock& block);
}

}  // namespace athanor::kernels
