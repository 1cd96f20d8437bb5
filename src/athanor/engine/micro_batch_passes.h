// The passes of a training step: forward, loss and backward of this rank's micro-batches through its stages of the
// model, in the order of a schedule (pipeline_runner.h). Used by data-parallel ranks (step.h) and by workers of
// parameter servers (worker_role.h).
//
//   MicroBatchPasses passes(model, gradients, pipeline, arena, options);
//   passes.run(state, next_batch, losses, experts, seconds);        // gradients.finish() included
//
// A micro-batch is read when its first action needs it, and its tensors are freed after its last one: a rank with the
// whole model has one at a time. Errors: those of the model, of the gradients and of their groups. Thread rule: one
// thread.
#pragma once

#include <functional>

#include "athanor/engine/expert_load.h"
#include "athanor/engine/micro_batch.h"
#include "athanor/engine/pipeline_runner.h"
#include "athanor/kernels/packed_weights.h"
#include "athanor/observe/profile.h"
#include "athanor/parallel/data/gradients.h"

namespace athanor::engine {

struct PassOptions {
  int64_t num_micro_batches = 1;
  bool pack_weights = false;                 // weights are packed once a step
  ActivationStore* activations = nullptr;    // activation offload; null: activations stay in memory
  const ContextParallel* context = nullptr;  // context parallelism (cp); null: this rank has whole sequences
  // Looked at every few milliseconds, between operations: where a rank of it is lost the pass ends, instead of at the
  // pass's next collective. Null: it is not.
  Group* peers = nullptr;
  Trace* trace = nullptr;
  std::function<double()> clock = now_seconds;  // of all seconds of a step
};

class MicroBatchPasses {
 public:
  MicroBatchPasses(const Model& model, Gradients& gradients, PipelineRunner& pipeline, Arena& arena,
                   const PassOptions& options);

  // Runs step state.step + 1, which `gradients` has begun. next_batch() returns this rank's micro-batches in order.
  void run(const TrainState& state, const std::function<const Batch&()>& next_batch, MicroBatchLosses& losses,
           ExpertLoads& experts, StepParts& seconds);
  double wait_seconds() const;  // seconds of this step in which this rank waited for other ranks

 private:
  Gradients& gradients_;
  PipelineRunner& pipeline_;
  Arena& arena_;
  PassOptions options_;
  PackedWeights packed_weights_;
  std::function<void()> look_at_peers_;
  int64_t looked_ns_ = 0;
};

}  // namespace athanor::engine
