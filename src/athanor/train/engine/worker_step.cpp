#include "athanor/train/engine/worker_step.h"

#include <cmath>

namespace athanor::train::engine {

StepResult WorkerStep::run(TrainState& state, const std::function<const Batch&()>& next_batch) {
  StepResult result;
  MicroBatchLosses losses(options_.pass.num_micro_batches, options_.num_channels);
  ExpertLoads experts(model_.moe_layers(), options_.pass.num_micro_batches);
  servers_.begin_step({.num_micro_batches = options_.pass.num_micro_batches,
                       .update = state.step + 1,
                       .loss_scale = state.loss_scale.scale});
  passes_.run(state, next_batch, losses, experts, result.seconds);
  const bool wants_stop = options_.stop != nullptr && options_.stop->load() > 0;
  const int64_t step = ++state.step;
  result.lr = options_.schedule.at(step);
  if (arena_.queue().device() == Device::null) return result;  // a plan has no servers
  const bool stops = step == stop_step_;
  const AnswerHeader answer =
      servers_.exchange({.step = step,
                         .commit = stops || options_.commits(step),
                         .stop_here = stops,
                         .wants_stop = wants_stop,
                         .tokens = losses.tokens_of(0, options_.pass.num_micro_batches),
                         .loss_scale = state.loss_scale.scale},
                        options_.max_grad_norm, losses.values);
  if (answer.stop_step > 0) stop_step_ = answer.stop_step;
  const MicroBatchLosses::Means means = losses.means();
  result.loss = means.loss;
  result.channel_loss = means.channel;
  result.tokens = means.tokens;
  result.grad_norm = answer.grad_norm;
  result.loss_scale = state.loss_scale.scale;
  result.applied = std::isfinite(answer.grad_norm);
  if (options_.is_sync) {
    experts.reduce(workers_);
    if (result.applied) experts.balance();
  }
  result.experts = experts.summary();  // unless consistency is "sync", of this worker's micro-batches only
  result.stop = step == stop_step_;
  result.seconds.comm = passes_.wait_seconds();
  state.tokens = answer.tokens;
  state.updates = answer.version;
  state.loss_scale.scale = answer.loss_scale;
  state.loss_scale.good_steps = answer.good_steps;
  return result;
}

}  // namespace athanor::train::engine
