// One block of a matrix product, computed by one thread: gemm_blocks.cpp hands it to the functions of one instruction
// set. Raw pointers only, as in rows.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "athanor/kernels/cpu/rows.h"

namespace athanor::kernels {

// Partial sums of a product whose k is divided into ranges. Each 32 x 32 results of c (a pair of panels) have a buffer
// of their own. The first range starts the sums, the last range writes c from them.
struct PairSums {
  float* data = nullptr;           // of the block's first pair [32,32]; null: k is one range
  int64_t row = 0;                 // elements from the pairs of 32 rows of c to the pairs of the next 32 rows
  bool first = true, last = true;  // is this range of k the first, the last?
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
  const float* sums;          // added before c is rounded, rows c_row apart; may be null
  const void* residual;       // type `out`, added to c after rounding, rows c_row apart; may be null
  float* a_sums;              // [m], += the sums of a over k; may be null
  const std::byte* packed_b;  // made by pack_b()
  PairSums pairs;             // of a k in ranges
  std::byte* scratch;  // this thread's own, on a boundary of 64: kGemmScratchBytes, less what packed_b takes
};

// Fits the second-level cache of processors with AMX, and is one huge page.
constexpr int64_t kGemmScratchBytes = int64_t{2} << 20;

// pack_b() packs the b of a block for gemm_block() of the same instruction set. Threads that compute rows of one block
// share the packed b.

// The bf16 kernels. a and b bf16, at most one of them transposed in memory (stride of k not 1 for a, 1 for b); c bf16
// or f32. Only these kernels take a residual (c bf16) and `a_sums` (a transposed). amx takes `pairs`, avx512_bf16
// `sums`.
constexpr int64_t kGroupRows = 128;  // rows of a that are multiplied by one panel of b before the next panel;
constexpr int64_t kGroupDepth = 1536;  // half as many rows where k is longer than this
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

// The f32-arithmetic kernels: a, b and bias of any type, c of that type or f32.
constexpr int64_t kF32PanelWidth = 64;  // panels may be narrower: a divisor of this width
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

}  // namespace athanor::kernels
