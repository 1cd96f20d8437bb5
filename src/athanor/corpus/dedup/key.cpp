#include "athanor/corpus/dedup/key.h"

#include <xxhash.h>

namespace athanor::corpus::dedup {

Key hash_key(std::string_view bytes, uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {hash.high64, hash.low64};
}

}  // namespace athanor::corpus::dedup
