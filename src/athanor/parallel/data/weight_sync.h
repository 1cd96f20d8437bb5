// What ranks that update their weights on their own do so that these stay together: nothing in most steps, and every few
// steps one exchange (local_sgd.h).
//
//   if (sync.due(step)) sync.sync();     // after the optimizer's update, before the parameters are published
//
// Collective. Thread rule: one thread.
#pragma once

#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::parallel::data {

class WeightSync {
 public:
  virtual ~WeightSync() = default;
  virtual void begin() = 0;  // before the first update; does nothing the second time
  virtual bool due(int64_t step) const = 0;
  virtual void sync() = 0;
  // A decision that all must share between two exchanges: true if `here` is true everywhere.
  virtual bool is_true_everywhere(bool here) = 0;
};

}  // namespace athanor::parallel::data
