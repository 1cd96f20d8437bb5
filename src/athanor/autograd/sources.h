// What stands behind parameters whose values and gradient slots are not always there (ZeRO): asked before every use.
// Thread rule: that of the Param.
#pragma once

#include <cstdint>

namespace athanor {

class Param;
class Weight;

// Elements [first, last) of a flattened tensor.
struct FlatRange {
  int64_t first = 0, last = 0;
  int64_t count() const { return last - first; }
};

// Whoever keeps values and gradient slots that are not always there (ZeRO). Asked before every use.
class ValueSource {
 public:
  virtual ~ValueSource() = default;
  virtual void need(const Param& param) = 0;     // the whole value must be in place
  virtual void changed(const Param& param) = 0;  // what this rank keeps of it was overwritten
};
class GradSource {
 public:
  virtual ~GradSource() = default;
  virtual void need(Weight& weight) = 0;  // its slot must be in place
};

}  // namespace athanor
