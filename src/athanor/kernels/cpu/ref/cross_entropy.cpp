#include <algorithm>
#include <cmath>

#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::ref {
namespace {

// The target is one of the classes: the driver deals with ignored rows.
template <typename T>
float row(void* dlogits, const float* logits, int32_t target, int64_t classes, int64_t width, float scale) {
  const float at_target = logits[target];
  const float largest = *std::max_element(logits, logits + classes);
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += std::exp(logits[c] - largest);
  if (dlogits != nullptr) {
    T* gradient = out<T>(dlogits);
    const auto total = static_cast<float>(sum);
    for (int64_t c = 0; c < classes; ++c) {
      const float probability = std::exp(logits[c] - largest) / total;
      gradient[c] = from_float<T>(scale * (probability - (c == target ? 1.0f : 0.0f)));
    }
    std::fill(gradient + classes, gradient + width, from_float<T>(0));
  }
  return static_cast<float>(std::log(sum) + (largest - at_target));
}

}  // namespace

template <typename T>
CrossEntropyRows cross_entropy() {
  return {row<T>};
}

template CrossEntropyRows cross_entropy<float>();
template CrossEntropyRows cross_entropy<Bf16>();
template CrossEntropyRows cross_entropy<F16>();

}  // namespace athanor::ref
