// What stands behind parameters whose values, gradient slots and masters are not always there (ZeRO, offload): asked
// before every use.
// Thread rule: that of the Param.
#pragma once

#include <cstdint>

#include "athanor/tensor/tensor.h"

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
  // Where that has no memory of its own (offload): it, until that of another parameter is asked for.
  virtual Tensor kept(const Param& param);
};
class GradSource {
 public:
  virtual ~GradSource() = default;
  virtual void need(Weight& weight) = 0;  // its slot must be in place
};

// Whoever keeps f32 masters that have no memory of their own (offload): `values` are those of param.range(), or
// `count` of them from `first` on.
class MasterStore {
 public:
  virtual ~MasterStore() = default;
  virtual void write_master(const Param& param, const float* values) = 0;
  virtual void read_master(const Param& param, int64_t first, int64_t count, float* values) const = 0;
};

}  // namespace athanor
