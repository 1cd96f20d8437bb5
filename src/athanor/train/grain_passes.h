// The passes of a training step: forward, loss and backward over the grains of this rank, one after the other, or, with a
// pipeline, all of them through its stages. What a rank of data parallelism (step.h) and a worker of parameter servers
// (worker_step.h) do alike.
//
//   GrainPasses passes(model, gradients, arena, options);
//   passes.run(state, next_batch, losses, experts, seconds);        // gradients.finish() included
//
// Thread rule: one thread.
#pragma once

#include <functional>

#include "athanor/kernels/packed_weights.h"
#include "athanor/parallel/grain_gradients.h"
#include "athanor/train/expert_load.h"
#include "athanor/train/grain.h"
#include "athanor/train/pipeline_runner.h"

namespace athanor {

struct PassOptions {
  RecomputePlan recompute;
  int64_t num_grains = 1;
  bool pack_weights = false;               // once a step
  ActivationStore* activations = nullptr;  // of blocks, between forward and backward; null: in memory
  const ContextParallel* context =
      nullptr;                         // the ranks that share each sequence (cp); null: it is here whole
  PipelineRunner* pipeline = nullptr;  // null: this rank has all layers
  Trace* trace = nullptr;
  std::function<double()> clock = now_seconds;  // of all seconds of a step
};

class GrainPasses {
 public:
  GrainPasses(const Model& model, GrainGradients& gradients, Arena& arena, const PassOptions& options);

  // Of step state.step + 1, which `gradients` has begun. next_batch() returns this rank's grains one after the other.
  void run(const TrainState& state, const std::function<const Batch&()>& next_batch, GrainLosses& losses,
           ExpertLoads& experts, StepParts& seconds);
  double wait_seconds() const;  // time in this step that the rank waited for others

 private:
  MicroBatch micro_batch(const TrainState& state, const Batch& batch) const;
  void run_grain(const TrainState& state, int64_t grain, const Batch& batch, GrainLosses& losses,
                 ExpertLoads& experts, StepParts& seconds);
  void run_pipeline(const TrainState& state, const std::vector<int64_t>& grains,
                    const std::vector<Batch>& batches, GrainLosses& losses, ExpertLoads& experts,
                    StepParts& seconds);

  const Model& model_;
  GrainGradients& gradients_;
  Arena& arena_;
  PassOptions options_;
  PackedWeights packed_weights_;
};

}  // namespace athanor
