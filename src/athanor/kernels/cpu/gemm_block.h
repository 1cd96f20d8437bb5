// One block of a matrix product, computed by one thread: what the drivers in gemm_blocks.cpp hand to the
// functions written for one instruction set. Raw pointers only, as in rows.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "athanor/kernels/cpu/rows.h"

namespace athanor {

// c [m,n] = a [m,k] . b [k,n] (+ bias [n]), or += where `accumulate`. Element (i, l) of a is at
// i * a_row + l * a_col, (l, j) of b at l * b_row + j * b_col, (i, j) of c at i * c_row + j. One stride of a
// and one of b is 1. Lengths are at least 1.
struct GemmBlock {
  int64_t m, n, k;
  const void* a;
  int64_t a_row, a_col;
  const void* b;
  int64_t b_row, b_col;
  const void* bias;  // type `in`; may be null
  void* c;
  int64_t c_row;
  RowType in, out;
  bool accumulate;
  std::byte* scratch;  // this thread's own, kGemmScratchBytes, on a boundary of 64
};

// Fits the second-level cache (2 MiB on processors with AMX), and is one huge page.
constexpr int64_t kGemmScratchBytes = int64_t{2} << 20;

namespace amx {
// How much of b a block may span: in packed form 768 KiB, which stay in the second-level cache while the rows
// of a pass by. Where c is added to, passing over it again costs less than narrow blocks, which turn a often.
constexpr int64_t kMaxDepth = 3072, kMaxAddedDepth = 512, kMaxElements = 128 * kMaxDepth, kMaxColumns = 768;
void gemm_block(const GemmBlock& block);  // a and b bf16; c bf16 or f32
}  // namespace amx

}  // namespace athanor
