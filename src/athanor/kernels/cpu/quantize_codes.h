// The values of the 8-bit codes of kernels/quantize.h, for the CPU and for devices, which must agree in every bit.
//
//   code_value<kPlainCodes>(1)      // 1e-6: the least that is not zero
//
// Code 0 is zero; then the decades follow from the smallest up, each with twice the values of the one before. The
// nearest value to t is that of code i, with i the number of middles below t.
#pragma once

#include <limits>

namespace athanor {

constexpr int kPlainCodes = 128;  // of a magnitude; the sign is the bit above
constexpr int kRootCodes = 256;
constexpr int kNegative = 128;  // of a plain code: the bit of its sign
constexpr int kCodeDecades = 7;

// What is left at the end of a map is the code of nothing.
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

// Between a code's value and the next one's.
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

}  // namespace athanor
