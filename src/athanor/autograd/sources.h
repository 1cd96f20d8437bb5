// Interfaces for parameter state that is not always in memory (ZeRO, offload): a source provides the full value or the
// gradient slot before each use, and is told when a gradient is complete.
//
//   class Shards : public ValueSource {
//     void need(const ParamStorage& param) override;      // all-gather param's value
//     void changed(const ParamStorage& param) override;   // the optimizer has overwritten this rank's shard
//   };
//
// Thread rule: that of the Param.
#pragma once

#include <cstdint>

#include "athanor/tensor/tensor.h"

namespace athanor::autograd {

class ParamStorage;
class Weight;

// Provides parameter values (ZeRO).
class ValueSource {
 public:
  virtual ~ValueSource() = default;
  virtual void need(const ParamStorage& param) = 0;     // makes the full value available (unshard)
  virtual void changed(const ParamStorage& param) = 0;  // told when this rank's shard was overwritten
  // An offloaded shard, loaded into memory. Valid until the next call for another parameter.
  virtual Tensor kept(const ParamStorage& param);
};
// Provides gradient slots and reduces the gradients in them.
class GradSource {
 public:
  virtual ~GradSource() = default;
  virtual void need(Weight&) {}  // sets the weight's slot (Weight::set_grad), where it has none
  // The slot has the weight's whole gradient of this rank's micro-batch number `micro_batch` in the step, from 0. Each
  // weight completes the micro-batches in ascending order.
  virtual void grad_ready(Weight& weight, int64_t micro_batch) = 0;
};

// Holds offloaded f32 masters. `values`: all elements of param.range(), or `count` of them from `first` on.
class MasterStore {
 public:
  virtual ~MasterStore() = default;
  virtual void write_master(const ParamStorage& param, const float* values) = 0;
  virtual void read_master(const ParamStorage& param, int64_t first, int64_t count, float* values) const = 0;
};

}  // namespace athanor::autograd
