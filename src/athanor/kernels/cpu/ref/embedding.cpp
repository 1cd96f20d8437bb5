#include <cstring>

#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::kernels::ref {
namespace {

template <typename T>
void add_rows(void* y, const void* a, const void* b, int64_t n) {
  if (b == nullptr) {
    std::memcpy(y, a, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < n; ++i) out<T>(y)[i] = from_float<T>(to_float(in<T>(a)[i]) + to_float(in<T>(b)[i]));
}

template <typename T>
void backward(float* dtable_row, const void* dy_row, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dtable_row[i] += to_float(in<T>(dy_row)[i]);
}

}  // namespace

template <typename T>
EmbeddingRows embedding() {
  return {add_rows<T>, backward<T>};
}

template EmbeddingRows embedding<float>();
template EmbeddingRows embedding<Bf16>();
template EmbeddingRows embedding<F16>();

}  // namespace athanor::kernels::ref
