// Loops over vectors.
//
//   for_vectors(n, [&](int64_t i, auto part) { store(y + i, load(x + i, part) * set1(2.f), part); });
//
// `part` is Full, or Tail for the last n % 16 elements: lanes beyond them load as 0 and are not stored.
#pragma once

#include "athanor/kernels/cpu/simd/vec.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

// body(i) for i = 0 ... kN - 1 as constants, so that arrays indexed by them are registers. (A loop that the
// compiler unrolls later leaves such arrays in memory.)
template <int kI>
struct Index {
  constexpr operator int() const { return kI; }
};
template <int kN, int kI = 0, typename Body>
[[gnu::always_inline]] inline void unroll(Body body) {
  if constexpr (kI < kN) {
    body(Index<kI>{});
    unroll<kN, kI + 1>(body);
  }
}

// Prefetches what a loop over arrays larger than the caches reads some iterations later. The processor's own prefetcher
// falls behind where a result overwrites an operand.
template <typename T>
[[gnu::always_inline]] inline void fetch_ahead(const T* p) {
  constexpr int64_t kBytes = 2048;
  _mm_prefetch(reinterpret_cast<const char*>(p) + kBytes, _MM_HINT_T0);
}

template <typename Body>
[[gnu::always_inline]] inline void for_vectors(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, Full{});
  if (i < n) body(i, Tail{first_lanes(static_cast<int>(n - i))});
}

// kSums sums over [0, n), four accumulators each: body(i, part, sums) adds one vector's share to sums[0 ...
// kSums).
template <int kSums, typename Body>
[[gnu::always_inline]] inline void sum_vectors(int64_t n, float (&total)[kSums], Body body) {
  V sums[4][kSums];
  for (auto& set : sums)
    for (V& sum : set) sum = zero();
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    body(i, Full{}, sums[0]);
    body(i + kLanes, Full{}, sums[1]);
    body(i + 2 * kLanes, Full{}, sums[2]);
    body(i + 3 * kLanes, Full{}, sums[3]);
  }
  for_vectors(
      n - i, [&](int64_t j, auto part) __attribute__((always_inline)) { body(i + j, part, sums[0]); });
  for (int s = 0; s < kSums; ++s) total[s] = sum_lanes((sums[0][s] + sums[1][s]) + (sums[2][s] + sums[3][s]));
}

// kSums sums over rows for every column, added to totals[s] [width] unless totals[s] is null: body(row, column, part,
// sums) adds one vector's share. Rows are read in memory order, a few side by side.
template <int kSums, typename Body>
[[gnu::always_inline]] inline void sum_columns(int64_t rows, int64_t width, float* const (&totals)[kSums],
                                               Body body) {
  constexpr int kRows = 4;
  for (int64_t row = 0; row < rows; row += kRows)
    for_vectors(
        width, [&](int64_t i, auto part) __attribute__((always_inline)) {
          V sums[kSums];
          for (int s = 0; s < kSums; ++s) sums[s] = totals[s] == nullptr ? zero() : load(totals[s] + i, part);
          for (int r = 0; r < kRows; ++r)
            if (row + r < rows) body(row + r, i, part, sums);
          for (int s = 0; s < kSums; ++s)
            if (totals[s] != nullptr) store(totals[s] + i, sums[s], part);
        });
}

}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
