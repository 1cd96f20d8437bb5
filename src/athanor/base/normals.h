// Box-Muller (1958) for many pairs of random words. The same source is compiled for several instruction sets: plain
// loops over plain arithmetic, nothing of which is contracted, so all give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace athanor {

// out[2i], out[2i + 1] = std * (two independent standard normals made of words[2i], words[2i + 1]).
// The error of a normal is below 1e-9 before it is rounded to float.
using Normals = void (*)(const uint32_t* words, size_t num_pairs, float std, float* out);

extern const Normals generic_normals, avx2_normals, avx512_normals;

}  // namespace athanor
