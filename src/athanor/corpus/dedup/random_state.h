// The random integers of NumPy's RandomState (Mersenne Twister MT19937), for numbers that others drew with it.
//
//   RandomState random(1);
//   const uint64_t a = random.below_from(1, kMersenne61);  // RandomState(1).randint(1, 2**61 - 1, dtype=uint64)
//
// Nothing else draws from it: what is random in Athanor has an address (base/philox.h). Source: Matsumoto and
// Nishimura, "Mersenne Twister" (1998); NumPy's masked rejection, the high half of 64 bits drawn first.
// Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <random>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::dedup {

class RandomState {
 public:
  explicit RandomState(uint32_t seed) : engine_(seed) {}
  // In [low, high), which is not empty.
  uint64_t below_from(uint64_t low, uint64_t high);

 private:
  std::mt19937 engine_;  // the standard fixes its numbers
};

}  // namespace athanor::corpus::dedup
