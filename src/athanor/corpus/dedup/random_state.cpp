#include "athanor/corpus/dedup/random_state.h"

#include <bit>

namespace athanor::corpus::dedup {

uint64_t RandomState::below_from(uint64_t low, uint64_t high) {
  const uint64_t last = high - low - 1;
  if (last == 0) return low;  // NumPy draws nothing then
  const uint64_t mask = ~uint64_t{0} >> std::countl_zero(last);
  while (true) {
    // One draw of 32 bits where that is enough.
    uint64_t value = engine_();
    if (last > 0xFFFFFFFF) value = value << 32 | engine_();
    if ((value & mask) <= last) return low + (value & mask);
  }
}

}  // namespace athanor::corpus::dedup
