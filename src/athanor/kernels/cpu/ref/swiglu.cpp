#include <cmath>

#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::kernels::ref {
namespace {

float sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}

template <typename T>
void forward(void* y, const void* gate, const void* up, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = to_float(in<T>(gate)[i]);
    out<T>(y)[i] = from_float<T>(g * sigmoid(g) * to_float(in<T>(up)[i]));
  }
}

template <typename T>
void backward(void* dgate, void* dup, const void* dy, const void* gate, const void* up, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float d = to_float(in<T>(dy)[i]), g = to_float(in<T>(gate)[i]), s = sigmoid(g);
    out<T>(dgate)[i] = from_float<T>(d * to_float(in<T>(up)[i]) * s * (1 + g * (1 - s)));
    out<T>(dup)[i] = from_float<T>(d * g * s);
  }
}

}  // namespace

template <typename T>
SwigluRows swiglu() {
  return {forward<T>, backward<T>};
}

template SwigluRows swiglu<float>();
template SwigluRows swiglu<Bf16>();
template SwigluRows swiglu<F16>();

}  // namespace athanor::kernels::ref
