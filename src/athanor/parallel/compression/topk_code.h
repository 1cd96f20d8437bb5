// The elements of largest magnitude of a matrix, those of lower index first where magnitudes are equal.
//
//   take_largest(x, numel, topk_count(numel, ratio), order, index, value);    // they are 0 in x afterwards
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>

namespace athanor {

int64_t topk_count(int64_t numel, double ratio);

// index, value: `count` each, ascending by index; the values as bits. order: numel to work with. numel < 2^31.
void take_largest(float* x, int64_t numel, int64_t count, int32_t* order, int32_t* index, int32_t* value);

}  // namespace athanor
