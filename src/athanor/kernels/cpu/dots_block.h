// A bf16 product c = a . b^T of at most kMostDotRows rows on tile registers (cpu/amx/dots.cpp). b is read once and
// never packed: its rows are loaded as the left operand of a tile product. Only the small a is packed. So the product
// runs at the speed of the memory that holds b, for one row as for sixteen (generating text token by token).
#pragma once

#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::kernels {

constexpr int64_t kMostDotRows = 16;
constexpr int64_t kDotColumns = 64;  // of a block, at most
constexpr int64_t kDotDepth = 128;   // k of a unit of packed a: 32 for each of four sums
constexpr int64_t kDotUnit = kMostDotRows * kDotDepth;
constexpr int64_t dot_units(int64_t k) {
  return (k + kDotDepth - 1) / kDotDepth;
}

// c [m,n] = a [m,k] . b [n,k]^T (+ bias [n]), bf16 but for c where `wide` (f32). Rows of b and c are b_row and c_row
// elements apart. 1 <= m <= kMostDotRows, 1 <= n <= kDotColumns. Every element is four
// f32 sums over ascending pairs of k, added at the end.
struct DotsBlock {
  int64_t m, n, k;
  const uint16_t* a;  // packed, on a boundary of 64
  const void* b;
  int64_t b_row;
  const void* bias;  // may be null
  void* c;
  int64_t c_row;
  bool wide;
};

namespace amx {
// to [dot_units(k)][kDotUnit]; rows of a are a_row elements apart.
void pack_dots(uint16_t* to, const void* a, int64_t a_row, int64_t m, int64_t k);
void dots_block(const DotsBlock& block);
}  // namespace amx

}  // namespace athanor::kernels
