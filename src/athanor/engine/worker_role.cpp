#include "athanor/engine/worker_role.h"

#include <cmath>

namespace athanor::engine {

WorkerRole::WorkerRole(const Declared& declared) : declared_(declared) {
  Model& model = declared.model;
  client_ = std::make_unique<ServerClient>(
      model, *declared.groups.exchange, *declared.groups.role,
      server_settings(declared.config, declared.layout, declared.step.num_channels), declared.arena,
      declared.step.pass.trace, declared.step.pass.clock);
  model.allocate(declared.arena, declared.parallel.dtype, /*with_master=*/false);
  client_->allocate();
  pipeline_ = make_pipeline(declared);
  PassOptions pass = declared.step.pass;
  pass.pack_weights = false;  // values are pulled while the pass runs
  passes_.emplace(model, *client_, *pipeline_, declared.arena, pass);
}

StepResult WorkerRole::step(TrainState& state, const std::function<const Batch&()>& next_batch,
                            bool /*may_repeat*/) {
  const StepOptions& options = declared_.step;
  const int64_t micro_batches = options.pass.num_micro_batches;
  StepResult result;
  MicroBatchLosses losses(micro_batches, options.num_channels);
  ExpertLoads experts(declared_.model.moe_layers(), micro_batches);
  client_->begin_step(
      {.num_micro_batches = micro_batches, .update = state.step + 1, .loss_scale = state.loss_scale.scale});
  passes_->run(state, next_batch, losses, experts, result.seconds);
  const bool wants_stop = options.stop != nullptr && options.stop->load() > 0;
  const int64_t step = ++state.step;
  result.lr = options.schedule.at(step);
  if (declared_.arena.queue().device() == Device::null) return result;  // a plan has no servers
  const bool stops = step == stop_step_;
  const AnswerHeader answer = client_->exchange({.step = step,
                                                 .commit = stops || is_commit(declared_.config, step),
                                                 .stop_here = stops,
                                                 .wants_stop = wants_stop,
                                                 .tokens = losses.tokens_of(0, micro_batches),
                                                 .loss_scale = state.loss_scale.scale},
                                                options.max_grad_norm, losses.values);
  if (answer.stop_step > 0) stop_step_ = answer.stop_step;
  const MicroBatchLosses::Means means = losses.means();
  result.loss = means.loss;
  result.channel_loss = means.channel;
  result.tokens = means.tokens;
  result.tokens_read = means.read;
  result.grad_norm = answer.grad_norm;
  result.loss_scale = state.loss_scale.scale;
  result.applied = std::isfinite(answer.grad_norm);
  if (declared_.config.parameter_server.consistency ==
      "sync") {  // all workers push each step before any goes on
    experts.reduce(*declared_.groups.role);
    if (result.applied) experts.balance();
  }
  result.experts = experts.summary();  // unless consistency is "sync", of this worker's micro-batches only
  result.stop = step == stop_step_;
  result.seconds.comm = passes_->wait_seconds();
  if (options.decisions != nullptr) state.follow(*options.decisions);
  state.tokens = answer.tokens;
  state.updates = answer.version;
  state.loss_scale.scale = answer.loss_scale;
  state.loss_scale.good_steps = answer.good_steps;
  return result;
}

}  // namespace athanor::engine
