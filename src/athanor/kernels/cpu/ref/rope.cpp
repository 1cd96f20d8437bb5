#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::kernels::ref {
namespace {

template <typename T>
void apply(void* y, const void* x, const float* cos, const float* sin, int64_t heads, int64_t head_dim,
           float sign) {
  const int64_t half = head_dim / 2;
  for (int64_t head = 0; head < heads; ++head)
    for (int64_t i = 0; i < half; ++i) {
      const int64_t first = head * head_dim + i, second = first + half;
      const float a = to_float(in<T>(x)[first]), b = to_float(in<T>(x)[second]);
      out<T>(y)[first] = from_float<T>(a * cos[i] - sign * b * sin[i]);
      out<T>(y)[second] = from_float<T>(b * cos[i] + sign * a * sin[i]);
    }
}

}  // namespace

template <typename T>
RopeRows rope() {
  return {apply<T>};
}

template RopeRows rope<float>();
template RopeRows rope<Bf16>();
template RopeRows rope<F16>();

}  // namespace athanor::kernels::ref
