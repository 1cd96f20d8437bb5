// c = a . b^T for a few rows of a, as dot products along k: every element of b is read once, in order, and
// nothing is packed. So generating text a token at a time runs at the speed of memory.
//
// Every element is one sum by the lanes of a vector, folded at the end, on every instruction set.
#include "athanor/kernels/cpu/f32/write_row.h"
#include "athanor/kernels/cpu/gemm_block.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

constexpr int kColumns = 4;

// Rows [0, kR) of a, padded to whole vectors, times kC rows of b.
template <int kR, int kC, typename T>
void tile(float* sums, int64_t sums_row, const float* a, int64_t a_row, const T* b, int64_t b_col,
          int64_t k) {
  V totals[kR * kC];
  unroll<kR * kC>([&](auto n) __attribute__((always_inline)) { totals[n] = zero(); });
  for_vectors(
      k, [&](int64_t l, auto part) __attribute__((always_inline)) {
        V rows[kR];
        unroll<kR>([&](auto i) __attribute__((always_inline)) { rows[i] = load(a + i * a_row + l); });
        unroll<kC>([&](auto j) __attribute__((always_inline)) {
          const V column = load(b + j * b_col + l, part);
          unroll<kR>([&](auto i) __attribute__((always_inline)) {
            totals[i * kC + j] = fma(rows[i], column, totals[i * kC + j]);
          });
        });
      });
  unroll<kR * kC>([&](auto n) __attribute__((always_inline)) {
    sums[n / kC * sums_row + n % kC] = sum_lanes(totals[n]);
  });
}

// All rows of a, four at a time, while the kC rows of b are in the first-level cache.
template <int kC, typename T>
void columns(float* sums, int64_t sums_row, const float* a, int64_t a_row, const T* b,
             const GemmBlock& block) {
  int64_t left = block.m;
  for (; left >= 4; left -= 4, sums += 4 * sums_row, a += 4 * a_row)
    tile<4, kC>(sums, sums_row, a, a_row, b, block.b_col, block.k);
  if (left == 3) tile<3, kC>(sums, sums_row, a, a_row, b, block.b_col, block.k);
  if (left == 2) tile<2, kC>(sums, sums_row, a, a_row, b, block.b_col, block.k);
  if (left == 1) tile<1, kC>(sums, sums_row, a, a_row, b, block.b_col, block.k);
}

template <typename T, typename C>
void run(const GemmBlock& block) {
  float* a = reinterpret_cast<float*>(block.scratch);
  const int64_t a_row = (block.k + kLanes - 1) / kLanes * kLanes;
  const int64_t sums_row = (block.n + kLanes - 1) / kLanes * kLanes;
  float* sums = a + block.m * a_row;
  for (int64_t i = 0; i < block.m; ++i)
    for_vectors(
        block.k, [&](int64_t l, auto part) __attribute__((always_inline)) {
          store(a + i * a_row + l, load(static_cast<const T*>(block.a) + i * block.a_row + l, part));
        });
  const T* b = static_cast<const T*>(block.b);
  int64_t j = 0;
  for (; j + kColumns <= block.n; j += kColumns)
    columns<kColumns>(sums + j, sums_row, a, a_row, b + j * block.b_col, block);
  for (; j < block.n; ++j) columns<1>(sums + j, sums_row, a, a_row, b + j * block.b_col, block);
  for (int64_t i = 0; i < block.m; ++i)
    write_row(static_cast<C*>(block.c) + i * block.c_row, sums + i * sums_row,
              static_cast<const T*>(block.bias), block.n, block.accumulate);
}

}  // namespace

void dots_block(const GemmBlock& block) {
  if (block.in == kF32) return run<float, float>(block);
  if (block.in == kBf16) return block.out == kF32 ? run<Bf16, float>(block) : run<Bf16, Bf16>(block);
  return block.out == kF32 ? run<F16, float>(block) : run<F16, F16>(block);
}

}  // namespace athanor::kernels::ATHANOR_ISA
