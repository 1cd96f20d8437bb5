#include <algorithm>

#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::kernels::ref {
namespace {

template <typename T>
void block(float* c, int64_t c_row, const void* a, int64_t a_row, int64_t a_col, const void* b, int64_t b_row,
           int64_t b_col, int64_t m, int64_t n, int64_t k, bool accumulate) {
  for (int64_t i = 0; i < m; ++i) {
    float* sums = c + i * c_row;
    if (!accumulate) std::fill(sums, sums + n, 0.0f);
    // The inner loop runs where b is contiguous; either way an element is one sum over ascending k.
    if (b_col == 1) {
      for (int64_t l = 0; l < k; ++l) {
        const float factor = to_float(in<T>(a)[i * a_row + l * a_col]);
        for (int64_t j = 0; j < n; ++j) sums[j] += factor * to_float(in<T>(b)[l * b_row + j]);
      }
    } else {
      for (int64_t j = 0; j < n; ++j)
        for (int64_t l = 0; l < k; ++l)
          sums[j] += to_float(in<T>(a)[i * a_row + l * a_col]) * to_float(in<T>(b)[l * b_row + j * b_col]);
    }
  }
}

}  // namespace

template <typename T>
GemmRows gemm() {
  return {block<T>};
}

template GemmRows gemm<float>();
template GemmRows gemm<Bf16>();
template GemmRows gemm<F16>();

}  // namespace athanor::kernels::ref
