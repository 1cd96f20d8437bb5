// Many random numbers at once, for several instruction sets. One source of plain loops is compiled for each, without
// contraction into fused multiply-adds, so all give the same bits: those of philox.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::base {

struct RandomRows {
  // words[4 i ... 4 i + 3] = philox4x32 of the counter (first + i, 0)
  void (*blocks)(uint64_t key, uint64_t first, size_t num_blocks, uint32_t* words);
  // out[2 i], out[2 i + 1] = std * (two independent standard normals made of words[2 i], words[2 i + 1]), by Box and
  // Muller (1958). The error of a normal is below 1e-9 before it is rounded to float.
  void (*normals)(const uint32_t* words, size_t num_pairs, float std, float* out);
};

extern const RandomRows generic_random_rows, avx2_random_rows, avx512_random_rows;

}  // namespace athanor::base
