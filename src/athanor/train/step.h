// One training step: forward, loss, backward, reduce, clip, update over the grains of a step. This is the one
// place where data parallelism, ZeRO, tensor parallelism, pipeline and recompute meet.
//
//   StepRunner runner(model, optimizer, parallel, group, arena, options);
//   StepResult result = runner.run(state, [&]() -> const Batch& { return loader.next(); });
//
// Without a pipeline the grains are computed one after the other; with one they are all read first and go through
// the stages by its schedule. `group` are the ranks whose losses add up (train/layout.h).
// Gradients and losses are sums over tokens; the division by the step's token count happens once, before
// clipping (law 5). Losses are summed per grain and channel, the grains in the fixed tree, so they have the
// same bits for any number of ranks. The step commits at its end: weights, optimizer state and `state` change
// together or not at all (a skipped f16 step changes the loss scale and the step count only; of islands one that
// overflows skips it for all, so they have one scale, and meet after it if they are to). Errors: a
// gradient that is not finite (without loss scaling) is an Error naming step and parameter.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "athanor/data/batch.h"
#include "athanor/kernels/packed_weights.h"
#include "athanor/models/model.h"
#include "athanor/observe/profile.h"
#include "athanor/optim/optimizer.h"
#include "athanor/optim/schedule.h"
#include "athanor/parallel/context_parallel.h"
#include "athanor/parallel/data_parallel.h"
#include "athanor/parallel/two_speed.h"
#include "athanor/train/expert_load.h"
#include "athanor/train/grain.h"
#include "athanor/train/pipeline_runner.h"
#include "athanor/train/state.h"

namespace athanor {

struct StepOptions {
  LrSchedule schedule;
  double clip_norm = 1.0;     // 0: none
  bool pack_weights = false;  // once a step
  RecomputePlan recompute;
  int64_t num_grains = 1;
  int64_t num_channels = 1;
  const std::atomic<int>* stop = nullptr;  // set by a signal; the ranks agree on it at the end of a step
  Trace* trace = nullptr;
  OuterSync* outer = nullptr;  // of two-speed synchronisation
  ActivationStore* activations =
      nullptr;                    // where those of blocks are between forward and backward; null: in memory
  Group* tensor_group = nullptr;  // the ranks that share this model (tp); null: this rank has all of it
  Group* expert_group =
      nullptr;  // the ranks that share the experts of a layer (ep); null: this rank has them all
  const ContextParallel* context =
      nullptr;  // the ranks that share each sequence (cp); null: it is here whole
  std::vector<const Param*> declared =
      {};  // parameters of the whole model: the order in which norms are added
  // Of a pipeline; null: this rank has all layers.
  PipelineRunner* pipeline = nullptr;
  Group* pipeline_group = nullptr;
  Group* ends =
      nullptr;  // the ranks of the first and the last stage, where tied embeddings lie on two; else null
};

struct StepResult {
  double loss = 0.0;                 // mean over the step's tokens, nats
  std::vector<double> channel_loss;  // mean per channel; NaN for a channel without tokens in this step
  int64_t tokens = 0;
  double grad_norm = 0.0;  // of the mean gradient (of the island's, with two speeds), before clipping
  double lr = 0.0;
  double loss_scale = 1.0;            // used in this step
  bool applied = true;                // false: skipped, the gradients overflowed
  bool stop = false;                  // some rank was asked to stop
  std::optional<ExpertLoad> experts;  // of a model that has some
  StepParts seconds;                  // where the time went
};

class Steps {
 public:
  virtual ~Steps() = default;
  // Runs step state.step + 1. next_batch() returns this rank's grains of the step one after the other.
  virtual StepResult run(TrainState& state, const std::function<const Batch&()>& next_batch) = 0;
};

class StepRunner final : public Steps {
 public:
  StepRunner(const Model& model, Optimizer& optimizer, DataParallel& parallel, Group& group, Arena& arena,
             StepOptions options)
      : model_(model),
        optimizer_(optimizer),
        parallel_(parallel),
        group_(group),
        arena_(arena),
        options_(std::move(options)),
        packed_weights_(arena) {
    for (const auto& param : model.params())
      if (param->whole() && param->is_matrix()) packed_weights_.hold(param->value());
  }

  StepResult run(TrainState& state, const std::function<const Batch&()>& next_batch) override;

 private:
  MicroBatch micro_batch(const TrainState& state, const Batch& batch) const;
  void run_grain(const TrainState& state, int64_t grain, const Batch& batch, GrainLosses& losses,
                 ExpertLoads& experts, StepParts& seconds);
  void run_pipeline(const TrainState& state, const std::vector<int64_t>& grains,
                    const std::vector<Batch>& batches, GrainLosses& losses, ExpertLoads& experts,
                    StepParts& seconds);
  double wait_seconds() const;
  // Returns the tokens that gradients are summed over.
  double reduce_losses(GrainLosses& losses, StepResult& result);
  void sum_shared_gradients();
  std::vector<double> squares_of_stage() const;
  double gradient_norm(double scale, int64_t step) const;

  const Model& model_;
  Optimizer& optimizer_;
  DataParallel& parallel_;
  Group& group_;
  Arena& arena_;
  StepOptions options_;
  PackedWeights packed_weights_;
};

}  // namespace athanor
