// One block of a matrix product, computed by one thread: what the drivers in gemm_blocks.cpp hand to the
// functions written for one instruction set. Raw pointers only, as in rows.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "athanor/kernels/cpu/rows.h"

namespace athanor {

// Where k comes in ranges, the sums of each 32 x 32 results of c wait in a place of their own until the last range, whose
// block makes c of them. The first range finds nothing there.
struct PairSums {
  float* data = nullptr;  // those of the block's first pair [32,32]; null: k is whole
  int64_t row = 0;        // elements from the pairs of 32 rows to those of the next
  bool first = true, last = true;
};

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
  const float* sums;          // added before c is rounded, rows as far apart as those of c; may be null
  const void* residual;       // type `out`, added to c once it is rounded, rows as far apart; may be null
  float* a_sums;              // [m], += the sums of a over k; may be null
  const std::byte* packed_b;  // what pack_b() made
  PairSums pairs;             // of k in ranges
  std::byte* scratch;  // this thread's own, on a boundary of 64: kGemmScratchBytes, less what packed_b takes
};

// Fits the second-level cache of processors with AMX, and is one huge page.
constexpr int64_t kGemmScratchBytes = int64_t{2} << 20;

// What pack_b() makes of a block's b, gemm_block() of the same instruction set takes; threads that make rows of one block
// share it.

// a and b bf16, not both read against their rows; c bf16 or f32. The only ones that take a residual
// (c bf16) and `a_sums` (a read against its rows); on tiles `pairs`, on vectors `sums`.
constexpr int64_t kGroupRows = 128;    // of a, which meet a panel of b before the next one does, so far as
constexpr int64_t kGroupDepth = 1536;  // k is no longer than this: half as many otherwise
constexpr int64_t packed_b_bytes(int64_t n, int64_t k) {
  return (n + 31) / 32 * ((k + 31) / 32) * 32 * 32 * 2;
}
constexpr int64_t bf16_scratch_bytes(int64_t n, int64_t k) {  // beside packed_b
  const int64_t panels = (n + 31) / 32, rows = k <= kGroupDepth ? kGroupRows : kGroupRows / 2;
  return packed_b_bytes(rows, k) + ((panels + 2) * 32 + panels) * 32 * 4;
}
namespace amx {
void pack_b(const GemmBlock& block, std::byte* packed);
void gemm_block(const GemmBlock& block);
}  // namespace amx
namespace avx512_bf16 {
void pack_b(const GemmBlock& block, std::byte* packed);
void gemm_block(const GemmBlock& block);
}  // namespace avx512_bf16

// a, b and bias of any type, c of that type or f32.
constexpr int64_t kF32PanelWidth = 64;  // or less, which whole panels of this width are made of
constexpr int64_t kAvx512GroupRows = 96, kAvx2GroupRows = 48;
constexpr int64_t f32_scratch_bytes(int64_t group, int64_t k) {  // beside packed_b
  return group * (k + 16 + kF32PanelWidth) * 4;
}
constexpr int64_t packed_f32_b_bytes(int64_t n, int64_t k) {
  return (n + kF32PanelWidth - 1) / kF32PanelWidth * kF32PanelWidth * k * 4;
}
namespace avx512 {
void pack_b(const GemmBlock& block, std::byte* packed);
void gemm_block(const GemmBlock& block);
void dots_block(const GemmBlock& block);  // few rows, a_col and b_row 1; m * (k + n + 32) f32 of scratch
}  // namespace avx512
namespace avx2 {
void pack_b(const GemmBlock& block, std::byte* packed);
void gemm_block(const GemmBlock& block);
void dots_block(const GemmBlock& block);
}  // namespace avx2

}  // namespace athanor
