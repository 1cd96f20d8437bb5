// Takes the elements of largest magnitude from a matrix; of equal ones those of lower index.
//
//   take_largest(x, numel, topk_count(numel, ratio), order, index, value);    // sets the taken elements of x to 0
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::parallel::compression {

int64_t topk_count(int64_t numel, double ratio);

// index, value: `count` each, ascending by index; value has the bits of the f32. order: scratch of numel. numel < 2^31.
void take_largest(float* x, int64_t numel, int64_t count, int32_t* order, int32_t* index, int32_t* value);

}  // namespace athanor::parallel::compression
