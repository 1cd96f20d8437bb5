#include <algorithm>
#include <cmath>

#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::kernels::ref {
namespace {

constexpr float kLowest = -3.4028235e38f;  // not -inf: the difference of two would be NaN

float largest_of(const float* logits, int64_t classes) {
  return classes == 0 ? kLowest : *std::max_element(logits, logits + classes);
}

double sum_of(const float* logits, int64_t classes, float largest) {
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += std::exp(logits[c] - largest);
  return sum;
}

SoftmaxNormalizer normalize(const float* logits, int64_t classes) {
  const float largest = largest_of(logits, classes);
  return {largest, static_cast<float>(sum_of(logits, classes, largest))};
}

template <typename T>
void gradient(void* dlogits, const float* logits, SoftmaxNormalizer norm, int32_t target, int64_t classes,
              int64_t width, float scale) {
  T* values = out<T>(dlogits);
  for (int64_t c = 0; c < classes; ++c) {
    const float probability = std::exp(logits[c] - norm.largest) / norm.sum;
    values[c] = from_float<T>(scale * (probability - (c == target ? 1.0f : 0.0f)));
  }
  std::fill(values + classes, values + width, from_float<T>(0));
}

// The target is one of the classes: the driver deals with ignored rows.
template <typename T>
float row(void* dlogits, const float* logits, int32_t target, int64_t classes, int64_t width, float scale) {
  const float at_target = logits[target], largest = largest_of(logits, classes);
  const double sum = sum_of(logits, classes, largest);
  if (dlogits != nullptr)
    gradient<T>(dlogits, logits, {largest, static_cast<float>(sum)}, target, classes, width, scale);
  return static_cast<float>(std::log(sum) + (largest - at_target));
}

}  // namespace

template <typename T>
CrossEntropyRows cross_entropy() {
  return {row<T>, normalize, gradient<T>};
}

template CrossEntropyRows cross_entropy<float>();
template CrossEntropyRows cross_entropy<Bf16>();
template CrossEntropyRows cross_entropy<F16>();

}  // namespace athanor::kernels::ref
