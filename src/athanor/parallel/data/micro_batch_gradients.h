// Interface for consumers of a rank's gradients while its micro-batches are computed: data parallelism, which reduces
// them over the ranks (data_parallel.h), or a worker of parameter servers, which pushes them
// (parameter_server/worker.h).
//
//   for (int64_t micro_batch : gradients.micro_batches_of_step(num_micro_batches)) {
//     Tape tape; gradients.begin_micro_batch(tape, micro_batch); ... tape.backward(loss); gradients.end_micro_batch();
//   }
//   // or, in a pipeline: begin_pass(); for each micro-batch in order weight_ready(weight, micro_batch) ...; end_pass();
//   gradients.finish();
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/autograd/tape.h"
#include "athanor/base/check.h"

namespace athanor::parallel::data {

class MicroBatchGradients {
 public:
  virtual ~MicroBatchGradients() = default;
  virtual std::vector<int64_t> micro_batches_of_step(
      int64_t num_micro_batches) const = 0;  // this rank's micro-batches
  virtual void begin_micro_batch(Tape& tape, int64_t micro_batch) = 0;
  virtual void end_micro_batch() = 0;
  // A pipeline has several micro-batches under way and says which weight has completed the gradient of which of them.
  // Error with a worker of parameter servers, which has no pipeline.
  virtual void begin_pass() {
    fail("gradients: got the pass of a pipeline, expected one micro-batch at a time");
  }
  virtual void weight_ready(Weight&, int64_t /*micro-batch*/) {}
  virtual void end_pass() {}
  virtual void finish() = 0;                // blocks until all gradients are reduced or pushed
  virtual double comm_seconds() const = 0;  // how long the rank waited for communication in the last step
};

}  // namespace athanor::parallel::data
