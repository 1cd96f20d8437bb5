// The inner loop of minhash.h: one table for each instruction set, with the same bits. The file that is compiled for one
// instruction set includes this header and nothing else of the program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::dedup {

constexpr size_t kMinHashLanes = 8;

struct MinHashRows {
  // least[i] = min(least[i], (a[i] x + b[i] mod 2^64) mod (2^61 - 1)) of all x. The count is a multiple of kMinHashLanes: the
  // last x may stand there several times.
  void (*least_images)(const uint64_t* a, const uint64_t* b, size_t num_hashes, const uint64_t* x,
                       size_t count, uint64_t* least);
};

extern const MinHashRows generic_minhash_rows, avx2_minhash_rows, avx512_minhash_rows;

}  // namespace athanor::corpus::dedup
