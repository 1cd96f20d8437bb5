// A pipeline stage made of a part of a model: connects Model, schedule and executor.
//
//   const auto parts = cut_model(stage_layers);                  // models/part.h
//   model.keep(parts_of_this_rank);  model.allocate(...);
//   ModelStage stage(model, parts[s], recompute, hooks);
//   Executor({schedule, {&stage, ...}, group}).run();            // pipeline/execute.h
//
// Gradients are accumulated into the slots of this rank's weights in micro-batch order, so they have the bits of a
// single process (law 1). Errors: Error. Thread rule: as Stage.
#pragma once

#include <functional>

#include "athanor/comm/group.h"
#include "athanor/config/recompute.h"
#include "athanor/models/model.h"
#include "athanor/pipeline/tape_stage.h"

namespace athanor::engine {

// The input of a stage for one micro-batch. Stages in the middle use only the shape of inputs.ids.
struct MicroBatch {
  PassContext context;
  ModelInputs inputs;
};

struct ModelStageHooks {
  std::function<MicroBatch(int micro_batch)> micro_batch;
  std::function<void(int micro_batch, const Tensor& loss)> on_loss;  // [B*S] f32, on the last stage
  int token_ranks =
      1;  // sequence parallelism: ranks that partition the hidden states (parallel/tensor/collective_ops.h)
};

class ModelStage : public TapeStage {
 public:
  ModelStage(const Model& model, const ModelPart& part, RecomputePlan recompute, ModelStageHooks hooks);
  std::vector<TensorSpec> inputs(int micro_batch) override { return boundary(!part_.embeds, micro_batch); }
  std::vector<TensorSpec> outputs(int micro_batch) override { return boundary(!part_.ends, micro_batch); }

 protected:
  PassContext context(int micro_batch) override;
  std::vector<Var> compute(Tape& tape, int micro_batch, const std::vector<Var>& x) override;

 private:
  // The hidden states, if there is a stage at that side.
  std::vector<TensorSpec> boundary(bool exists, int micro_batch) const;
  const Model& model_;
  ModelPart part_;
  RecomputePlan recompute_;
  ModelStageHooks hooks_;
};

}  // namespace athanor::engine
