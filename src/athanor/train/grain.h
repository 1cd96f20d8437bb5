// What one grain brings in and what comes of it: its tokens as tensors, its pass, its losses. Common to the steps of ranks
// that sum gradients among themselves (step.h) and of workers of parameter servers (worker_step.h).
//
//   GrainLosses losses(num_grains, num_channels);
//   compute_grain(model, make_micro_batch(arena, state, batch, context), {.begin = ..., .end = ...}, seconds);
//   ... losses.values are summed over the ranks ...
//   losses.means().loss
//
// Thread rule: one thread.
#pragma once

#include <functional>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/data/batch.h"
#include "athanor/models/model.h"
#include "athanor/observe/profile.h"
#include "athanor/parallel/context_parallel.h"
#include "athanor/train/model_stage.h"
#include "athanor/train/state.h"

namespace athanor {

// The token ids of a batch as a tensor [B,T] i32.
Tensor to_tensor(Arena& arena, const std::vector<int32_t>& ids, int64_t batch, int64_t length);

// Of step state.step + 1. `context`: of sequences that are shared, this rank's tokens; null: whole sequences.
MicroBatch make_micro_batch(Arena& arena, const TrainState& state, const Batch& batch,
                            const ContextParallel* context);

struct GrainPass {
  RecomputePlan recompute;
  std::function<void(Tape&)> begin;            // before the forward pass
  std::function<void(const Tensor&)> on_loss;  // [B*S] f32
  std::function<void()> end;                   // after the backward pass
  std::function<double()> waited;              // seconds so far that belong to neither pass
  Trace* trace = nullptr;
  std::function<double()> clock = now_seconds;
};
void compute_grain(const Model& model, const MicroBatch& grain, const GrainPass& pass, StepParts& seconds);

// Sums over the tokens of each grain and channel, and the wish to stop. Grains of other ranks stay zero here, and adding
// zeros is exact, so a sum over the ranks gathers them without changing a bit.
struct GrainLosses {
  GrainLosses(int64_t num_grains, int64_t num_channels)
      : grains(num_grains), channels(num_channels), values(count(num_grains, num_channels), 0.0) {}
  static size_t count(int64_t num_grains, int64_t num_channels) {
    return static_cast<size_t>(num_grains * num_channels * 2 + 1);
  }
  double& loss(int64_t grain, int64_t channel) {
    return values[static_cast<size_t>((grain * channels + channel) * 2)];
  }
  double& tokens(int64_t grain, int64_t channel) {
    return values[static_cast<size_t>((grain * channels + channel) * 2 + 1)];
  }
  double& stop() { return values.back(); }
  void add(int64_t grain, const Batch& batch, const ContextParallel* context, const Tensor& of_tokens);

  double tokens_of(int64_t first, int64_t last);  // of these grains
  struct Means {
    double loss = 0.0;            // per token, nats
    std::vector<double> channel;  // NaN for a channel without tokens
    int64_t tokens = 0;
  };
  Means means();  // the grains in the fixed tree of comm/tree.h

  int64_t grains, channels;
  std::vector<double> values;
};

}  // namespace athanor
