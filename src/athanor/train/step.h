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
#include "athanor/models/model.h"
#include "athanor/observe/profile.h"
#include "athanor/optim/optimizer.h"
#include "athanor/optim/schedule.h"
#include "athanor/parallel/data_parallel.h"
#include "athanor/parallel/two_speed.h"
#include "athanor/train/expert_load.h"
#include "athanor/train/grain_passes.h"
#include "athanor/train/stage_gradients.h"
#include "athanor/train/state.h"

namespace athanor {

struct StepOptions {
  LrSchedule schedule;
  double max_grad_norm = 1.0;  // 0: none
  int64_t num_channels = 1;
  const std::atomic<int>* stop = nullptr;  // set by a signal; the ranks agree on it at the end of a step
  OuterSync* outer = nullptr;              // of two-speed synchronisation
  PassOptions pass;
  StageGroups groups;
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
        options_(std::move(options)),
        passes_(model, parallel, arena, options_.pass),
        stage_(model, options_.groups) {}

  StepResult run(TrainState& state, const std::function<const Batch&()>& next_batch) override;

 private:
  // Returns the tokens that gradients are summed over.
  double reduce_losses(GrainLosses& losses, StepResult& result);
  void sum_shared_gradients();
  double gradient_norm(bool may_overflow, int64_t step) const;

  const Model& model_;
  Optimizer& optimizer_;
  DataParallel& parallel_;
  Group& group_;
  StepOptions options_;
  GrainPasses passes_;
  StageGradients stage_;
};

}  // namespace athanor
