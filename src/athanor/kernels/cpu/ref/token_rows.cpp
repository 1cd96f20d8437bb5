#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::kernels::ref {
namespace {

template <typename T>
void sum_rows(void* y, const void* x, const int32_t* places, const float* weights, int64_t count,
              int64_t width) {
  for (int64_t c = 0; c < width; ++c) {
    float sum = 0;
    for (int64_t k = 0; k < count; ++k)
      if (places[k] >= 0)
        sum += (weights == nullptr ? 1.0f : weights[k]) * to_float(in<T>(x)[places[k] * width + c]);
    out<T>(y)[c] = from_float<T>(sum);
  }
}

template <typename T>
void scale_row(void* y, const void* x, float factor, int64_t width) {
  for (int64_t c = 0; c < width; ++c) out<T>(y)[c] = from_float<T>(factor * to_float(in<T>(x)[c]));
}

template <typename T>
float dot(const void* a, const void* b, int64_t width) {
  double sum = 0;
  for (int64_t c = 0; c < width; ++c) sum += double{to_float(in<T>(a)[c])} * to_float(in<T>(b)[c]);
  return static_cast<float>(sum);
}

}  // namespace

template <typename T>
TokenRows token_rows() {
  return {sum_rows<T>, scale_row<T>, dot<T>};
}

template TokenRows token_rows<float>();
template TokenRows token_rows<Bf16>();
template TokenRows token_rows<F16>();

}  // namespace athanor::kernels::ref
