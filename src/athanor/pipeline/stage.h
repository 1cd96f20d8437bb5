// What a pipeline stage is to the executor: forward and the two halves of backward, for one micro-batch at
// a time.
//
//   Tensor y = stage.forward(micro_batch, x);           // x from the stage before, y for the next
//   Tensor dx = stage.backward_input(micro_batch, dy);  // dy from the next, dx for the stage before
//   stage.backward_weight(micro_batch);                 // whenever there is time
//
// The first stage gets no x and gives no dx, the last gives no y and gets no dy: undefined tensors. A stage
// keeps what its backward needs, micro-batch by micro-batch, and frees it with backward() or
// backward_weight(). Tensors are not written to by whoever gets them. Thread rule: one thread per stage.
#pragma once

#include "athanor/tensor/tensor.h"

namespace athanor {

class Stage {
 public:
  virtual ~Stage() = default;
  virtual Tensor forward(int micro_batch, const Tensor& x) = 0;
  virtual Tensor backward(int micro_batch, const Tensor& dy) = 0;  // both halves
  virtual Tensor backward_input(int micro_batch, const Tensor& dy) = 0;
  virtual void backward_weight(int micro_batch) = 0;
  // Memory for the x or dy of a micro-batch that another rank will send; they are of one shape and dtype.
  virtual Tensor make_boundary(int micro_batch) = 0;
};

}  // namespace athanor
