#include "athanor/train/worker_step.h"

#include <cmath>

#include "athanor/base/clock.h"

namespace athanor {

void WorkerStep::compute(const TrainState& state, const std::function<const Batch&()>& next_batch,
                         GrainLosses& losses, StepParts& seconds) {
  GradientSum& gradients = servers_.gradients();
  servers_.begin_step(state.step + 1, state.loss_scale.scale);
  for (const int64_t grain : gradients.grains_of_step(options_.num_grains)) {
    const double start = now_seconds();
    const Batch& batch = next_batch();
    seconds.data += now_seconds() - start;
    compute_grain(model_, make_micro_batch(arena_, state, batch, nullptr),
                  {.recompute = options_.recompute,
                   .begin =
                       [&](Tape& tape) {
                         if (WeightReady ready = gradients.begin_grain(grain))
                           tape.on_weight_ready(std::move(ready));
                       },
                   .on_loss = [&](const Tensor& loss) { losses.add(grain, batch, nullptr, loss); },
                   .end = [&] { gradients.end_grain(); },
                   .waited = [&] { return servers_.clock().seconds(); },
                   .trace = options_.trace},
                  seconds);
  }
  gradients.finish();
}

StepResult WorkerStep::run(TrainState& state, const std::function<const Batch&()>& next_batch) {
  StepResult result;
  GrainLosses losses(options_.num_grains, options_.num_channels);
  servers_.clock().reset();
  compute(state, next_batch, losses, result.seconds);
  const int64_t step = ++state.step;
  result.lr = options_.schedule.at(step);
  if (arena_.queue().device() == Device::null) return result;  // nobody answers
  const bool stops = step == stop_step_;
  const AnswerHeader answer =
      servers_.exchange({.step = step,
                         .commit = stops || options_.commits(step),
                         .stop_here = stops,
                         .wants_stop = options_.stop != nullptr && options_.stop->load() > 0,
                         .tokens = losses.tokens_of(0, options_.num_grains),
                         .loss_scale = state.loss_scale.scale},
                        options_.clip_norm, losses.values);
  if (answer.stop_step > 0) stop_step_ = answer.stop_step;
  const GrainLosses::Means means = losses.means();
  result.loss = means.loss;
  result.channel_loss = means.channel;
  result.tokens = means.tokens;
  result.grad_norm = answer.grad_norm;
  result.loss_scale = state.loss_scale.scale;
  result.applied = std::isfinite(answer.grad_norm);
  result.stop = step == stop_step_;
  result.seconds.comm = servers_.clock().seconds();
  state.tokens = answer.tokens;
  state.updates = answer.version;
  state.loss_scale.scale = answer.loss_scale;
  state.loss_scale.good_steps = answer.good_steps;
  return result;
}

}  // namespace athanor
