#include "athanor/kernels/cpu/simd/product.h"

#include "athanor/kernels/cpu/simd/vec_loops.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

// The block of c that lives in registers: as many accumulators as leave room for a row of b.
constexpr int kRows = 6;
#ifdef __AVX512F__
constexpr int kVectors = 4, kUnroll = 1;
#else
constexpr int kVectors = 1, kUnroll = 4;
#endif

struct Strides {
  int64_t c_row, a_row, a_col, b_row, k;
  bool add;
};

template <int kR, int kN>
void block(float* c, const float* a, const float* b, const Strides& s) {
  V sums[kR * kN];
  unroll<kR * kN>([&](auto n) __attribute__((always_inline)) {
    sums[n] = s.add ? load(c + n / kN * s.c_row + n % kN * kLanes) : zero();
  });
#pragma GCC unroll kUnroll
  for (int64_t l = 0; l < s.k; ++l) {
    V row[kN];
    unroll<kN>([&](auto j) __attribute__((always_inline)) { row[j] = load(b + j * kLanes); });
    unroll<kR>([&](auto i) __attribute__((always_inline)) {
      const V factor = set1(a[i * s.a_row]);
      unroll<kN>([&](auto j) __attribute__((always_inline)) {
        sums[i * kN + j] = fma(factor, row[j], sums[i * kN + j]);
      });
    });
    a += s.a_col;
    b += s.b_row;
  }
  unroll<kR * kN>([&](auto n) __attribute__((always_inline)) {
    store(c + n / kN * s.c_row + n % kN * kLanes, sums[n]);
  });
}

template <int kN>
void columns(float* c, const float* a, const float* b, int64_t m, const Strides& s) {
  for (; m >= kRows; m -= kRows, c += kRows * s.c_row, a += kRows * s.a_row) block<kRows, kN>(c, a, b, s);
  switch (m) {
    case 5:
      return block<5, kN>(c, a, b, s);
    case 4:
      return block<4, kN>(c, a, b, s);
    case 3:
      return block<3, kN>(c, a, b, s);
    case 2:
      return block<2, kN>(c, a, b, s);
    case 1:
      return block<1, kN>(c, a, b, s);
    default:
      return;
  }
}

}  // namespace

void multiply(float* c, int64_t c_row, const float* a, int64_t a_row, int64_t a_col, const float* b,
              int64_t b_row, int64_t m, int64_t vectors, int64_t k, bool add) {
  const Strides s = {c_row, a_row, a_col, b_row, k, add};
  for (; vectors >= kVectors; vectors -= kVectors, b += kVectors * kLanes, c += kVectors * kLanes)
    columns<kVectors>(c, a, b, m, s);
#ifdef __AVX512F__
  if (vectors == 3) columns<3>(c, a, b, m, s);
  if (vectors == 2) columns<2>(c, a, b, m, s);
  if (vectors == 1) columns<1>(c, a, b, m, s);
#endif
}

}  // namespace athanor::kernels::ATHANOR_ISA
