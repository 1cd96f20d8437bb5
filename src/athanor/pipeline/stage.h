// The interface between a pipeline stage and the executor: forward and the two halves of backward, for one micro-batch
// at a time.
//
//   stage.inputs(micro_batch);                                       // {{"hidden", {B, T, C}, Dtype::bf16}}
//   std::vector<Tensor> y = stage.forward(micro_batch, x);           // x from the stage before, y for the next stage
//   std::vector<Tensor> dx = stage.backward_input(micro_batch, dy);  // dy from the next stage, dx for the stage before
//   stage.backward_weight(micro_batch);                              // at any later time
//
// x and dx are as inputs() says, y and dy as outputs() says; a stage's outputs are the next one's inputs. x and dx of
// the first stage are empty, so are y and dy of the last. A stage keeps what its backward needs for each micro-batch,
// and frees it with backward() or backward_weight(). A receiver does not write to the tensors that it gets. Errors:
// Error. Thread rule: one thread per stage.
#pragma once

#include <vector>

#include "athanor/tensor/spec.h"

namespace athanor::pipeline {

class Stage {
 public:
  virtual ~Stage() = default;
  virtual std::vector<TensorSpec> inputs(int micro_batch) = 0;
  virtual std::vector<TensorSpec> outputs(int micro_batch) = 0;
  virtual std::vector<Tensor> forward(int micro_batch, const std::vector<Tensor>& x) = 0;
  virtual std::vector<Tensor> backward(int micro_batch, const std::vector<Tensor>& dy) = 0;  // both halves
  virtual std::vector<Tensor> backward_input(int micro_batch, const std::vector<Tensor>& dy) = 0;
  virtual void backward_weight(int micro_batch) = 0;
};

}  // namespace athanor::pipeline
