// The end of a product: writes a row of sums into c.
#pragma once

#include "athanor/kernels/cpu/simd/vec_loops.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

// c [n] = sums + bias, or += where `accumulate`; bias may be null. sums may be read up to a whole vector.
template <typename T, typename C>
inline void write_row(C* c, const float* sums, const T* bias, int64_t n, bool accumulate) {
  for_vectors(
      n, [&](int64_t j, auto part) __attribute__((always_inline)) {
        V value = load(sums + j);
        if (bias != nullptr) value = value + load(bias + j, part);
        if (accumulate) value = value + load(c + j, part);
        store(c + j, value, part);
      });
}

}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
