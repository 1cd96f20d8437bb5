// A few rows of a bf16 product c = a . b^T as dot products along k (cpu/amx/dots.cpp), on processors with AVX512-BF16:
// b is read once, in order, and nothing is packed or converted.
#pragma once

#include <cstdint>

namespace athanor {

constexpr int64_t kMostDotRows = 8;
constexpr int64_t kDotColumns = 64;  // of a block, at most

// c [m,n] = a [m,k] . b [n,k]^T (+ bias [n]), bf16 but for c where `wide` (f32). Rows of a, b and c are a_row, b_row and
// c_row elements apart. 1 <= m <= kMostDotRows, 1 <= n <= kDotColumns. Every element is one sum by lanes.
struct DotsBlock {
  int64_t m, n, k;
  const void* a;
  int64_t a_row;
  const void* b;
  int64_t b_row;
  const void* bias;  // may be null
  void* c;
  int64_t c_row;
  bool wide;
};

namespace amx {
void dots_block(const DotsBlock& block);
}

}  // namespace athanor
