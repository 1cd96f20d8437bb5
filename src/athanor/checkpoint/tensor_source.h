// A TensorSource gives the values of logical tensors by name and box, whatever keeps them: the files of a checkpoint
// (checkpoint.h), or the memory of ranks (snapshot.h). An engine starts from one.
//
//   if (source.has("outer.momentum.head")) source.read_box("outer.momentum.head", whole_shape, box, values);
//
// Errors: Error naming source and tensor where it is missing, has another shape, or is damaged. Thread rule: one thread.
#pragma once

#include <string>

#include "athanor/tensor/box.h"

namespace athanor::checkpoint {

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual std::string text() const = 0;  // what a message calls it: a path, "the snapshot of step 12"
  virtual bool has(const std::string& name) const = 0;
  virtual const Shape& shape_of(const std::string& name) const = 0;
  // The box of the tensor, whose shape must be `expected`, as dense f32 values.
  virtual void read_box(const std::string& name, const Shape& expected, const Box& box,
                        float* values) const = 0;
};

}  // namespace athanor::checkpoint
