// Whoever takes the gradients of a rank's grains while they are computed: data parallelism, which sums them over the
// ranks (data_parallel.h), or a worker of parameter servers, which sends them there (parameter_server/worker.h).
//
//   for (int64_t grain : gradients.grains_of_step(num_grains)) {
//     Tape tape; gradients.begin_grain(tape, grain); ... tape.backward(loss); gradients.end_grain();
//   }
//   // or, in a pipeline: begin_pass(); for each grain in order weight_ready(weight, grain) ...; end_pass();
//   gradients.finish();
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/autograd/tape.h"
#include "athanor/base/check.h"

namespace athanor {

class GrainGradients {
 public:
  virtual ~GrainGradients() = default;
  virtual std::vector<int64_t> grains_of_step(int64_t num_grains) const = 0;  // of this rank
  virtual void begin_grain(Tape& tape, int64_t grain) = 0;
  virtual void end_grain() = 0;
  // A pipeline works on several grains at a time. It says which weight has the gradient of which grain. Error: workers of
  // parameter servers have none.
  virtual void begin_pass() {
    fail("gradients: got the pass of a pipeline, expected one micro-batch at a time");
  }
  virtual void weight_ready(Weight&, int64_t /*grain*/) {}
  virtual void end_pass() {}
  virtual void finish() = 0;                // waits
  virtual double comm_seconds() const = 0;  // of the last step: time that the rank waited
};

}  // namespace athanor
