#include "athanor/parallel/compression/topk_code.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

namespace athanor::parallel::compression {
namespace {

constexpr int32_t kMagnitude = 0x7fffffff;  // as bits, magnitudes compare like numbers

int32_t magnitude(float x) {
  return std::bit_cast<int32_t>(x) & kMagnitude;
}

}  // namespace

int64_t topk_count(int64_t numel, double ratio) {
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(ratio * static_cast<double>(numel))), 1, numel);
}

void take_largest(float* x, int64_t numel, int64_t count, int32_t* order, int32_t* index, int32_t* value) {
  for (int64_t i = 0; i < numel; ++i) order[i] = magnitude(x[i]);
  std::nth_element(order, order + count - 1, order + numel, std::greater<>());
  const int32_t least = order[count - 1];
  int64_t ties = std::count(order, order + count, least);  // how many elements equal to `least` to take
  for (int64_t i = 0; i < numel; ++i) {
    const int32_t here = magnitude(x[i]);
    if (here < least || (here == least && ties-- <= 0)) continue;
    *index++ = static_cast<int32_t>(i);
    *value++ = std::bit_cast<int32_t>(x[i]);
    x[i] = 0.0f;
  }
}

}  // namespace athanor::parallel::compression
