// Rotary position embedding (Su et al., "RoFormer", 2021) as tables: row p, column i is the cosine or sine of the angle
// p * f_i, times a magnitude; f_i and the magnitude are those of the scaling (rope_scaling.h), base^(-2i/D) and 1 without
// one. All is computed in double and rounded once. cos, sin [positions, D/2] f32.
//
//   const RopeTable table = make_rope_table(arena, /*positions=*/2048, /*head_dim=*/64, /*base=*/10000.0);
//
// Thread rule: a plain function.
#pragma once

#include "athanor/nn/rope_scaling.h"
#include "athanor/tensor/tensor.h"

namespace athanor::nn {

struct RopeTable {
  Tensor cos, sin;
};

RopeTable make_rope_table(Arena& arena, int64_t positions, int64_t head_dim, double base,
                          const RopeScaling& scaling = {});

}  // namespace athanor::nn
