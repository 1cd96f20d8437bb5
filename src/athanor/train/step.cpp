#include "athanor/train/step.h"

#include <algorithm>
#include <cmath>

#include "athanor/base/clock.h"
#include "athanor/kernels/table.h"
#include "athanor/parallel/tensor_parallel.h"

namespace athanor {

MicroBatch StepRunner::micro_batch(const TrainState& state, const Batch& batch) const {
  MicroBatch grain = make_micro_batch(arena_, state, batch, options_.context);
  grain.context.activations = options_.activations;
  return grain;
}

void StepRunner::run_grain(const TrainState& state, int64_t grain, const Batch& batch, GrainLosses& losses,
                           ExpertLoads& experts, StepParts& seconds) {
  compute_grain(model_, micro_batch(state, batch),
                {.recompute = options_.recompute,
                 .begin = [&](Tape& tape) { parallel_.begin_grain(tape, grain); },
                 .on_loss = [&](const Tensor& loss) { losses.add(grain, batch, options_.context, loss); },
                 .end = [&] { parallel_.end_grain(); },
                 .waited = [&] { return parallel_.comm_seconds(); },
                 .trace = options_.trace},
                seconds);
  experts.take(grain);
}

// Micro-batch i is the rank's i-th grain.
void StepRunner::run_pipeline(const TrainState& state, const std::vector<int64_t>& grains,
                              const std::vector<Batch>& batches, GrainLosses& losses, ExpertLoads& experts,
                              StepParts& seconds) {
  const Span span(options_.trace, "pipeline", "step");
  const auto grain_of = [&](int micro) { return grains.at(static_cast<size_t>(micro)); };
  PipelinePass pass;
  for (const Batch& batch : batches) pass.batches.push_back(micro_batch(state, batch));
  pass.on_loss = [&](int micro, const Tensor& loss) {
    losses.add(grain_of(micro), batches[static_cast<size_t>(micro)], options_.context, loss);
  };
  pass.on_weight_ready = [&](Weight& weight, int micro) { parallel_.weight_ready(weight, grain_of(micro)); };
  double before = now_seconds(), waited_before = wait_seconds();
  pass.after_action = [&](const Action& action) {
    experts.take(grain_of(action.micro_batch));
    const double now = now_seconds(), waited = wait_seconds();
    (action.act == Act::forward ? seconds.forward : seconds.backward) +=
        now - before - (waited - waited_before);
    before = now;
    waited_before = waited;
  };
  parallel_.begin_pass();
  options_.pipeline->train(std::move(pass));
  parallel_.end_pass();
}

// Time in this step that the rank waited for others.
double StepRunner::wait_seconds() const {
  return parallel_.comm_seconds() + (options_.pipeline != nullptr ? options_.pipeline->wait_seconds() : 0.0);
}

double StepRunner::reduce_losses(GrainLosses& losses, StepResult& result) {
  losses.stop() = options_.stop != nullptr && options_.stop->load() > 0 ? 1.0 : 0.0;
  if (options_.tensor_group != nullptr)
    options_.tensor_group->all_reduce(&losses.stop(), 1, Dtype::f64, "stop").wait();
  group_.all_reduce(losses.values.data(), static_cast<int64_t>(losses.values.size()), Dtype::f64, "losses")
      .wait();
  result.stop = losses.stop() > 0.0;
  const GrainLosses::Means means = losses.means();
  result.loss = means.loss;
  result.channel_loss = means.channel;
  result.tokens = means.tokens;
  const auto [first, last] = parallel_.summed_grains(options_.num_grains);
  return losses.tokens_of(first, last);
}

// What several ranks hold of the model in common, once they have the gradients of all grains.
void StepRunner::sum_shared_gradients() {
  std::vector<std::pair<Param*, Tensor>> changed;
  const auto keep = [&] {
    for (const auto& [param, grad] : changed) parallel_.keep_grad(*param, grad);
    changed.clear();
  };
  const auto grad_of = [&](Param& param) -> const Tensor& {
    changed.emplace_back(&param, parallel_.grad(param));
    return changed.back().second;
  };
  if (options_.tensor_group != nullptr)
    sum_partial_gradients(model_.params(), grad_of, *options_.tensor_group);
  keep();
  if (options_.ends == nullptr) return;
  for (const auto& param : model_.params()) {
    Tensor grad = param->num_uses() > param->uses().size() ? grad_of(*param) : Tensor{};
    if (grad.defined() && grad.numel() > 0) add_tied_uses(*options_.ends, grad, param->name()).wait();
  }
  keep();
}

// Squares of the gradients of the parameters of the whole model, in the order of declaration; nothing where other ranks
// count them.
std::vector<double> StepRunner::squares_of_stage() const {
  const std::vector<const Param*>& declared = options_.declared;
  std::vector<double> all(declared.size(), 0.0), of_experts(declared.size(), 0.0);
  const std::vector<double> of_params = parallel_.sum_squares(model_.params());
  for (size_t i = 0; i < of_params.size(); ++i) {
    const Param* param = model_.params()[i].get();
    const auto place =
        static_cast<size_t>(std::find(declared.begin(), declared.end(), param) - declared.begin());
    const bool is_expert = options_.expert_group != nullptr && param->is_cut_over("ep");
    const bool elsewhere = options_.ends != nullptr && param->num_uses() > param->uses().size() &&
                           param->uses().front()->use() == "head";  // counted where it embeds
    if (is_expert)
      of_experts[place] = of_params[i];
    else if (param->is_first_copy() && !elsewhere)
      all[place] = of_params[i];
  }
  if (options_.expert_group == nullptr) return all;
  options_.expert_group->all_reduce(of_experts.data(), std::ssize(of_experts), Dtype::f64, "norms of experts")
      .wait();
  const bool counts = options_.tensor_group == nullptr || options_.tensor_group->rank() == 0;
  for (size_t i = 0; i < all.size(); ++i) all[i] += counts ? of_experts[i] : 0.0;
  return all;
}

// Added in the order of declaration, whoever has which stage.
double StepRunner::gradient_norm(double scale, int64_t step) const {
  std::vector<double> all = squares_of_stage();
  if (options_.pipeline_group != nullptr)
    options_.pipeline_group->all_reduce(all.data(), std::ssize(all), Dtype::f64, "norms of stages").wait();
  double squares = 0.0;
  const Param* broken = nullptr;
  for (size_t i = 0; i < all.size(); ++i) {
    squares += all[i];
    if (broken == nullptr && !std::isfinite(squares)) broken = options_.declared[i];
  }
  if (options_.tensor_group != nullptr)
    options_.tensor_group->all_reduce(&squares, 1, Dtype::f64, "gradient norm").wait();
  if (!std::isfinite(squares) && scale == 1.0)
    fail("step {}: the gradient of {} is not finite; the last checkpoint is untouched", step,
         broken != nullptr ? "'" + broken->name() + "'" : "a parameter on another rank");
  return std::sqrt(squares);
}

StepResult StepRunner::run(TrainState& state, const std::function<const Batch&()>& next_batch) {
  StepResult result;
  GrainLosses losses(options_.num_grains, options_.num_channels);
  ExpertLoads experts(model_.moe_layers(), options_.num_grains);
  parallel_.begin_step(options_.num_grains, state.updates + 1, state.loss_scale.scale);
  const std::vector<int64_t> grains = parallel_.grains_of_step(options_.num_grains);
  std::optional<PackedWeights::Scope> packed;
  if (options_.pack_weights) packed.emplace(packed_weights_, arena_.queue());
  std::vector<Batch> batches;  // of a pipeline
  for (const int64_t grain : grains) {
    const double start = now_seconds();
    const Batch& batch = next_batch();
    result.seconds.data += now_seconds() - start;
    if (options_.pipeline == nullptr)
      run_grain(state, grain, batch, losses, experts, result.seconds);
    else
      batches.push_back(batch);
  }
  if (options_.pipeline != nullptr) run_pipeline(state, grains, batches, losses, experts, result.seconds);
  packed.reset();
  parallel_.finish();
  const double start = now_seconds();
  sum_shared_gradients();
  const double summed_tokens = reduce_losses(losses, result);
  experts.reduce(group_);
  result.experts = experts.summary();
  const double reduced = now_seconds();
  result.seconds.comm = wait_seconds() + (reduced - start);

  const Span span(options_.trace, "update", "step");
  const int64_t step = state.step + 1;
  result.loss_scale = state.loss_scale.scale;
  result.lr = options_.schedule.at(step);
  const double norm_of_sums = gradient_norm(state.loss_scale.dynamic ? 0.0 : 1.0, step);
  const double to_mean = 1.0 / (summed_tokens * state.loss_scale.scale);
  result.grad_norm = norm_of_sums * to_mean;
  const bool finite = std::isfinite(norm_of_sums);
  result.applied = state.loss_scale.update(options_.outer != nullptr && state.loss_scale.dynamic
                                               ? options_.outer->is_true_everywhere(finite)
                                               : finite);
  const bool meets =
      options_.outer != nullptr && options_.outer->due(step);  // in a step that is skipped, too
  if (options_.outer != nullptr) options_.outer->begin();
  if (result.applied) {
    const double clip =
        options_.clip_norm > 0.0 && parallel_.sums_gradients() && result.grad_norm > options_.clip_norm
            ? options_.clip_norm / (result.grad_norm + 1e-6)
            : 1.0;
    optimizer_.step([this](Param& param) -> const Tensor& { return parallel_.grad(param); },
                    {.update = state.updates + 1,
                     .lr = result.lr,
                     .grad_scale = to_mean * clip,
                     .grads_stay = parallel_.grads_stay()});
    ++state.updates;
  } else {
    parallel_.skip_step();
  }
  if (meets) options_.outer->sync();
  if (result.applied || meets) parallel_.publish();
  if (result.applied) experts.balance();
  state.step = step;
  state.tokens += result.tokens;
  result.seconds.update = now_seconds() - reduced;
  return result;
}

}  // namespace athanor
