// A part of a model as a stage of a pipeline: what turns a Model and a schedule into a step.
//
//   const auto parts = cut_model(stage_layers);                  // models/part.h
//   model.keep(parts_of_this_rank);  model.allocate(...);
//   ModelStage stage(model, parts[s], recompute, hooks);
//   Executor({schedule, {&stage, ...}, group}).run();            // pipeline/execute.h
//
// Gradients go into the slots of the weights that are kept, in the order of the micro-batches: the bits of
// one process (law 1). The head's are added in the forward of the last part, where they are made
// (ops/linear_cross_entropy.cpp) and where they are said to be ready, all others in the backward. Thread rule: as Stage.
#pragma once

#include <functional>

#include "athanor/comm/group.h"
#include "athanor/config/recompute.h"
#include "athanor/models/model.h"
#include "athanor/pipeline/tape_stage.h"

namespace athanor {

// What a stage must know of a micro-batch. Parts in the middle look at the length of `ids` only.
struct MicroBatch {
  PassContext context;
  Tensor ids, targets;  // [B,S] i32
};

struct ModelStageHooks {
  std::function<MicroBatch(int micro_batch)> micro_batch;
  std::function<void(int micro_batch, const Tensor& loss)> on_loss;  // [B*S] f32, on the part that ends
  // Of a weight whose gradient a micro-batch has completed; micro-batches come in their order. Null: nobody.
  std::function<void(Weight&, int micro_batch)> on_weight_ready = nullptr;
  int token_ranks =
      1;  // hidden states are dealt out to so many (sequence parallelism, parallel/collective_ops.h)
};

class ModelStage : public TapeStage {
 public:
  ModelStage(const Model& model, const ModelPart& part, RecomputePlan recompute, ModelStageHooks hooks);
  Tensor make_boundary(int micro_batch) override;

 protected:
  PassContext context(int micro_batch) override;
  Var compute(Tape& tape, int micro_batch, const Var& x) override;
  WeightReady weight_ready(int micro_batch) override;

 private:
  const Model& model_;
  ModelPart part_;
  RecomputePlan recompute_;
  ModelStageHooks hooks_;
};

// The gradient of a parameter that the first and the last part share (tied embeddings), on two ranks:
// `ends` has the first part's rank, then the last part's. Both get the embedding's gradient plus the
// head's, the sum that one process makes. Error if `grad` is not f32. Where one rank has both parts there
// is nothing to exchange.
Work add_tied_uses(Group& ends, Tensor& grad, const std::string& name);

}  // namespace athanor
