#include "athanor/kernels/cpu/dots_block.h"

#include "athanor/kernels/cpu/f32/write_row.h"

namespace athanor::amx {
namespace {

using Pairs = __m512bh;

inline Pairs read(const uint16_t* from, __mmask32 mask) {
  return reinterpret_cast<Pairs>(_mm512_maskz_loadu_epi16(mask, from));
}

// kR rows of a times kC rows of b.
template <int kR, int kC>
void tile(float* sums, const DotsBlock& block, int64_t row, int64_t column) {
  const uint16_t* a = static_cast<const uint16_t*>(block.a) + row * block.a_row;
  const uint16_t* b = static_cast<const uint16_t*>(block.b) + column * block.b_row;
  __m512 totals[kR * kC];
  unroll<kR * kC>([&](auto n) __attribute__((always_inline)) { totals[n] = _mm512_setzero_ps(); });
  const auto add = [&](int64_t l, __mmask32 mask) __attribute__((always_inline)) {
    Pairs rows[kR];
    unroll<kR>([&](auto i) __attribute__((always_inline)) { rows[i] = read(a + i * block.a_row + l, mask); });
    unroll<kC>([&](auto j) __attribute__((always_inline)) {
      const Pairs other = read(b + j * block.b_row + l, mask);
      unroll<kR>([&](auto i) __attribute__((always_inline)) {
        totals[i * kC + j] = _mm512_dpbf16_ps(totals[i * kC + j], rows[i], other);
      });
    });
  };
  int64_t l = 0;
  for (; l + 32 <= block.k; l += 32) add(l, ~__mmask32{0});
  if (l < block.k) add(l, (__mmask32{1} << (block.k - l)) - 1);
  unroll<kR * kC>([&](auto n) __attribute__((always_inline)) {
    sums[(row + n / kC) * kDotColumns + column + n % kC] = sum_lanes(V{totals[n]});
  });
}

template <int kR, int kC>
void columns(float* sums, const DotsBlock& block, int64_t row) {
  int64_t j = 0;
  for (; j + kC <= block.n; j += kC) tile<kR, kC>(sums, block, row, j);
  for (; j < block.n; ++j) tile<kR, 1>(sums, block, row, j);
}

template <typename C>
void write(const DotsBlock& block, const float* sums) {
  for (int64_t i = 0; i < block.m; ++i)
    write_row(static_cast<C*>(block.c) + i * block.c_row, sums + i * kDotColumns,
              static_cast<const Bf16*>(block.bias), block.n, false);
}

}  // namespace

void dots_block(const DotsBlock& block) {
  alignas(64) float sums[kMostDotRows * kDotColumns];
  int64_t row = 0;
  for (; block.m - row >= 4; row += 4) columns<4, 4>(sums, block, row);
  if (block.m - row == 3) columns<3, 4>(sums, block, row);
  if (block.m - row == 2) columns<2, 8>(sums, block, row);
  if (block.m - row == 1) columns<1, 8>(sums, block, row);
  if (block.wide)
    write<float>(block, sums);
  else
    write<Bf16>(block, sums);
}

}  // namespace athanor::amx
