// A StateHome gives a parameter's master and optimizer state two places by turns, the slots of a snapshot. An update reads
// the values in one and writes those after it into the other, so one of the two is always whole.
//
//   const int master = home.find("model.head.weight");     // -1: it has no place there
//   Tensor values = home.values(master);                   // when memory is allocated: the place that is filled first
//   const Destination to = home.next(master);              // in each update: where the new values go
//
// After the update the owner's values are those of next(). Thread rule: one thread.
#pragma once

#include <string>

#include "athanor/kernels/optimizer.h"

namespace athanor::autograd {

class StateHome {
 public:
  virtual ~StateHome() = default;
  // The number of the tensor of that name; whoever asks for its places writes it out of place from then on.
  virtual int find(const std::string& name) const = 0;
  virtual Tensor values(int tensor) = 0;  // f32, flat; its values are zero
  virtual Destination next(int tensor) = 0;
  // For a step without an update: copies the present values to next().
  virtual void carry_over(int tensor, const Tensor& values) = 0;
};

}  // namespace athanor::autograd
