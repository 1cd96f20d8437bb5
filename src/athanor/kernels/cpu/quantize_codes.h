// The values of the 8-bit codes of kernels/quantize.h, for the CPU and for devices, which must agree in every bit.
//
//   code_value<kPlainCodes>(1)      // 1e-6: the least that is not zero
//
// Code 0 is zero. The decades follow from the smallest up; each has twice as many values as the one before. The code
// nearest to t is the number of middles (midpoints of neighbouring values) below t.
#pragma once

#include <limits>

#include "athanor/base/namespaces.h"

namespace athanor::kernels {

constexpr int kPlainCodes = 128;  // codes of a magnitude; the sign is the bit above
constexpr int kRootCodes = 256;
constexpr int kNegative = 128;  // the sign bit of a plain code
constexpr int kCodeDecades = 7;

// One more than the largest code of a map that is used; the codes from here on stand for no value.
template <int kCodes>
constexpr int code_end() {
  return 1 + (kCodes >> kCodeDecades) * ((1 << kCodeDecades) - 1);
}

template <int kCodes>
constexpr float code_value(int code) {
  if (code == 0 || code >= code_end<kCodes>()) return code == 0 ? 0.0f : 1.0f;
  double power = 1e6;
  int first = 1, count = kCodes >> kCodeDecades;
  while (code >= first + count) {
    first += count;
    count *= 2;
    power /= 10;
  }
  return static_cast<float>((0.1 + 0.9 * (code - first + 1) / count) / power);
}

// The midpoint between the values of a code and the next code; infinity for the last code.
template <int kCodes>
constexpr float code_middle(int code) {
  if (code + 1 >= code_end<kCodes>()) return std::numeric_limits<float>::infinity();
  return (code_value<kCodes>(code) + code_value<kCodes>(code + 1)) / 2;
}

// middles [kCodes]
template <int kCodes>
constexpr int nearest_code(const float* middles, float t) {
  int below = 0;
  for (int step = kCodes / 2; step > 0; step /= 2) below += middles[below + step - 1] < t ? step : 0;
  return below;
}

}  // namespace athanor::kernels
