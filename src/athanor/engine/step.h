// One training step over the micro-batches of a global batch: forward, loss, backward, reduce, clip, update. Data
// parallelism, ZeRO, tensor parallelism, pipeline and recompute are put together here and nowhere else.
//
//   StepRunner runner(model, optimizer, parallel, pipeline, group, everyone, arena, options);
//   StepResult result = runner.run(state, [&]() -> const Batch& { return loader.next(); });
//
// `group`: the ranks over which losses are summed; `everyone`: all ranks that train (layout/groups.h). Gradients and
// losses are sums over tokens, divided once by the step's token count, before clipping (law 5). Losses are summed per
// micro-batch and channel, then over micro-batches in the fixed tree, so they have the same bits for any number of
// ranks.
//
// The step commits on all ranks or on none. Before the update the ranks vote: a call that is complete only where every
// rank that trains came this far. A failure before it leaves weights, optimizer state and `state` as they were, on every
// rank. After it nothing between ranks can stop the update, except the exchanges of 1-bit Adam and of outer steps (local
// SGD). Where is_whole() is false after a failure only `slots` have a state that is whole, of the step before. What fails while the new values are published fails after the commit: StepResult::broken has it, and the values
// of this rank are those after the step.
//
// A skipped f16 step changes the loss scale and the step count only. With local SGD an overflow in one replica group
// skips the update in all, so the loss scale stays common; an outer step that is due still happens.
//
// The vote also tells all ranks of values that are not finite and of sequences that are damaged (Batch::damage). A step with
// damaged sequences, or, where the caller `may_repeat` it, one from which training could not go on, changes nothing and
// says why: StepResult::undone. Errors: a step without any target (parallel/data/no_targets.h); else, without loss scaling, a gradient that is not finite is a NotFinite naming step
// and parameter. Thread rule: one thread.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "athanor/data/batch.h"
#include "athanor/engine/expert_load.h"
#include "athanor/engine/micro_batch_passes.h"
#include "athanor/engine/snapshot_slots.h"
#include "athanor/engine/stage_gradients.h"
#include "athanor/engine/state.h"
#include "athanor/engine/update_probe.h"
#include "athanor/models/model.h"
#include "athanor/observe/profile.h"
#include "athanor/optim/optimizer.h"
#include "athanor/optim/schedule.h"
#include "athanor/parallel/data/data_parallel.h"
#include "athanor/parallel/data/weight_sync.h"

namespace athanor::engine {

// StepResult::undone of a rank whose own gradients are finite.
constexpr const char* kNotFiniteElsewhere = "a gradient of another rank is not finite";

struct StepOptions {
  LrSchedule schedule;
  double max_grad_norm = 1.0;  // 0: none
  int64_t num_channels = 1;
  const std::atomic<int>* stop = nullptr;  // set by a signal; the ranks agree on it at the end of a step
  WeightSync* weights = nullptr;           // of ranks that update on their own for some steps (local SGD)
  SnapshotSlots* slots = nullptr;          // that keep each step; null: none
  const std::vector<Decision>* decisions =
      nullptr;                    // of the run, past and future: a step commits with its own
  bool measures_updates = false;  // StepResult::last_update
  PassOptions pass;
  StageGroups groups;
};

struct StepResult {
  double loss = 0.0;                 // mean over the step's tokens, nats
  std::vector<double> channel_loss;  // mean per channel; NaN for a channel without tokens in this step
  int64_t tokens = 0;                // targets: what a loss mask or a quarantine leaves out does not count
  int64_t tokens_read = 0;           // all that went through the model
  double grad_norm = 0.0;  // of the mean gradient (with local SGD, of this replica group), before clipping
  double lr = 0.0;
  double loss_scale = 1.0;            // used in this step
  bool applied = true;                // false: the update was skipped because gradients overflowed
  bool stop = false;                  // some rank was asked to stop
  std::optional<ExpertLoad> experts;  // of a model that has some
  StepParts seconds;                  // where the time went
  // Of the update before this one, on the same ranks: the norm of what it changed over that of the weights, by a sample.
  std::optional<double> last_update;
  std::string undone = {};         // why the step has not been done; "": it has
  bool damaged = false;            // undone because of damaged sequences
  std::exception_ptr broken = {};  // a failure after the commit: the group is broken, the step is done

  // For callers that have noted the step: throws what is broken.
  const StepResult& or_throw() const {
    if (broken) std::rethrow_exception(broken);
    return *this;
  }
};

class StepRunner {
 public:
  StepRunner(const Model& model, Optimizer& optimizer, DataParallel& parallel, PipelineRunner& pipeline,
             Group& group, Group& everyone, Arena& arena, StepOptions options)
      : model_(model),
        optimizer_(optimizer),
        parallel_(parallel),
        group_(group),
        everyone_(everyone),
        options_(std::move(options)),
        is_plan_(arena.queue().device() == Device::null),
        passes_(model, parallel, pipeline, arena, options_.pass),
        stage_(model, options_.groups),
        probe_(model, options_.measures_updates) {}

  // Runs step state.step + 1. next_batch() returns this rank's micro-batches of the step in order.
  StepResult run(TrainState& state, const std::function<const Batch&()>& next_batch, bool may_repeat = false);
  // The last step did not break off after it had changed something: in its update, or, where exchanges keep state
  // (gradient compression with error feedback), anywhere.
  bool is_whole() const { return !is_changing_; }

 private:
  // Sums the losses. Returns the number of tokens that gradients are summed over, once every rank came this far.
  double vote(MicroBatchLosses& losses, StepResult& result);
  void sum_shared_gradients();
  std::string why_undone(MicroBatchLosses& losses, const StepResult& result, const StageGradients::Norm& norm,
                         const LossScale& scale);

  const Model& model_;
  Optimizer& optimizer_;
  DataParallel& parallel_;
  Group& group_;
  Group& everyone_;
  StepOptions options_;
  bool is_plan_;  // computes nothing, so it has no losses
  MicroBatchPasses passes_;
  StageGradients stage_;
  UpdateProbe probe_;
  bool is_changing_ = false;
  std::optional<bool> exchanges_keep_state_ = {};
};

}  // namespace athanor::engine
