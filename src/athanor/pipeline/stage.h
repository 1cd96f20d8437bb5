// The interface between a pipeline stage and the executor: forward and the two halves of backward, for one micro-batch
// at a time.
//
//   Tensor y = stage.forward(micro_batch, x);           // x from the stage before, y for the next stage
//   Tensor dx = stage.backward_input(micro_batch, dy);  // dy from the next stage, dx for the stage before
//   stage.backward_weight(micro_batch);                 // at any later time
//
// Undefined tensors: x and dx of the first stage, y and dy of the last. A stage keeps what its backward needs for each
// micro-batch, and frees it with backward() or backward_weight(). A receiver does not write to the tensors that it
// gets. Errors: Error. Thread rule: one thread per stage.
#pragma once

#include "athanor/tensor/tensor.h"

namespace athanor::pipeline {

class Stage {
 public:
  virtual ~Stage() = default;
  virtual Tensor forward(int micro_batch, const Tensor& x) = 0;
  virtual Tensor backward(int micro_batch, const Tensor& dy) = 0;  // both halves
  virtual Tensor backward_input(int micro_batch, const Tensor& dy) = 0;
  virtual void backward_weight(int micro_batch) = 0;
  // Allocates a receive buffer for x or dy of a micro-batch from another rank; both have one shape and dtype.
  virtual Tensor make_boundary(int micro_batch) = 0;
};

}  // namespace athanor::pipeline
