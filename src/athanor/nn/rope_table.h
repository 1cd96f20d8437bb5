// Cosines and sines of rotary position embedding: row p, column i holds the angle p * base^(-2i/D), computed
// in double. cos, sin [positions, D/2] f32.
#pragma once

#include "athanor/tensor/tensor.h"

namespace athanor {

struct RopeTable {
  Tensor cos, sin;
};

RopeTable make_rope_table(Arena& arena, int64_t positions, int64_t head_dim, double base);

}  // namespace athanor
