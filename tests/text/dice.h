// Reproducible random numbers for tests of this folder.
#pragma once

#include <cstdint>

#include "athanor/base/philox.h"

namespace athanor::tests {

class Dice {
 public:
  explicit Dice(uint64_t seed) : stream_(seed) {}
  uint64_t below(uint64_t n) { return stream_.word(next_++, 0) % n; }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

}  // namespace athanor::tests
