// kernels/cross_entropy.h on vectors. The first pass keeps a running maximum and sum of exponentials, chunk
// by chunk (Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018): logits come from memory
// once and from the cache for the gradient.
#pragma once

#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cpu/simd/vec_loops.h"
#include "athanor/kernels/cpu/simd/vec_math.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {
namespace cross_entropy {

inline constexpr int64_t kChunk = 1024;           // stays in the first-level cache between its two readings
inline constexpr float kLowest = -3.4028235e38f;  // not -inf: the difference of two would be NaN

// e^(x - largest)
struct Power {
  V largest;
  explicit Power(float top) : largest(set1(top)) {}
  [[gnu::always_inline]] V operator()(V x) const { return exp(x - largest); }
};

template <typename P = Power>
inline SoftmaxNormalizer normalize(const float* logits, int64_t n) {
  V sums = zero();
  float largest = kLowest;
  for (int64_t first = 0; first < n; first += kChunk) {
    const float* x = logits + first;
    const int64_t count = n - first < kChunk ? n - first : kChunk;
    V tops[2] = {set1(largest), set1(largest)};
    int64_t i = 0;
    for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
      tops[0] = max(load(x + i), tops[0]);
      tops[1] = max(load(x + i + kLanes), tops[1]);
    }
    for_vectors(
        count - i, [&](int64_t j, auto part) __attribute__((always_inline)) {
          tops[0] = max(keep(load(x + i + j, part), part, tops[0]), tops[0]);
        });
    const float top = max_lanes(max(tops[0], tops[1]));
    sums = sums * exp(set1(largest) - set1(top));
    largest = top;
    const P power(largest);
    V chunk[2] = {zero(), zero()};
    for (i = 0; i + 2 * kLanes <= count; i += 2 * kLanes) {
      chunk[0] = chunk[0] + power(load(x + i));
      chunk[1] = chunk[1] + power(load(x + i + kLanes));
    }
    for_vectors(
        count - i, [&](int64_t j, auto part) __attribute__((always_inline)) {
          chunk[0] = chunk[0] + keep(power(load(x + i + j, part)), part, zero());
        });
    sums = sums + (chunk[0] + chunk[1]);
  }
  return {largest, sum_lanes(sums)};
}

template <typename T>
inline void set_zero(T* y, int64_t n) {
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) { store(y + i, zero(), part); });
}

template <typename T>
inline void store_one(T* y, float value) {
  store(y, set1(value), Tail{first_lanes(1)});
}

// A negative target is none of the classes.
template <typename T, typename P = Power>
void gradient(void* dlogits, const float* logits, SoftmaxNormalizer norm, int32_t target, int64_t classes,
              int64_t width, float scale) {
  T* values = static_cast<T*>(dlogits);
  const float at_target = target < 0 ? 0.f : logits[target];  // dlogits may be the logits
  const V factor = set1(scale / norm.sum);
  const P power(norm.largest);
  for_vectors(
      classes, [&](int64_t i, auto part) __attribute__((always_inline)) {
        __builtin_prefetch(logits + width + i, 0, 2);  // the next row comes while this one is in the cache
        store(values + i, power(load(logits + i, part)) * factor, part);
      });
  if (target >= 0) {
    const float probability = first_lane(exp(set1(at_target - norm.largest))) / norm.sum;
    store_one(values + target, scale * (probability - 1.f));
  }
  set_zero(values + classes, width - classes);
}

// The target is one of the classes.
template <typename T, typename P>
float row(void* dlogits, const float* logits, int32_t target, int64_t classes, int64_t width, float scale) {
  const float at_target = logits[target];
  const SoftmaxNormalizer norm = normalize<P>(logits, classes);
  const float loss = first_lane(log(set1(norm.sum))) + (norm.largest - at_target);
  if (dlogits != nullptr) gradient<T, P>(dlogits, logits, norm, target, classes, width, scale);
  return loss;
}

template <typename T, typename P = Power>
constexpr CrossEntropyRows rows = {row<T, P>, normalize<P>, gradient<T, P>};

}  // namespace cross_entropy
}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
