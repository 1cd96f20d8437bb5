#include "athanor/train/step.h"

#include <algorithm>
#include <cmath>

#include "athanor/base/clock.h"
#include "athanor/comm/tree.h"
#include "athanor/kernels/table.h"
#include "athanor/parallel/tensor_parallel.h"

namespace athanor {

// Sums over the tokens of each grain and channel: row g of `loss` and `tokens`. Grains of other ranks stay
// zero here, and adding zeros is exact, so an all-reduce gathers them without changing a bit.
struct StepRunner::Losses {
  Losses(int64_t num_grains, int64_t num_channels)
      : channels(num_channels), values(static_cast<size_t>(num_grains * num_channels * 2 + 1), 0.0) {}
  double& loss(int64_t grain, int64_t channel) {
    return values[static_cast<size_t>((grain * channels + channel) * 2)];
  }
  double& tokens(int64_t grain, int64_t channel) {
    return values[static_cast<size_t>((grain * channels + channel) * 2 + 1)];
  }
  double& stop() { return values.back(); }
  void add(int64_t grain, const Batch& batch, const ContextParallel* context, const Tensor& of_tokens);

  int64_t channels;
  std::vector<double> values;
};

void StepRunner::Losses::add(int64_t grain, const Batch& batch, const ContextParallel* context,
                             const Tensor& of_tokens) {
  if (of_tokens.queue().device() == Device::null) return;
  const std::vector<int32_t> own =
      context == nullptr ? std::vector<int32_t>() : context->take(batch.targets, batch.num_sequences);
  const std::vector<int32_t>& targets = context == nullptr ? batch.targets : own;
  const int64_t length = context == nullptr ? batch.seq_len : context->seq_len();
  std::vector<float> per_token(static_cast<size_t>(of_tokens.numel()));
  copy_to_host(per_token.data(), of_tokens, of_tokens.size_bytes());
  for (int64_t b = 0; b < batch.num_sequences; ++b)
    for (int64_t t = 0; t < length; ++t) {
      const auto i = static_cast<size_t>(b * length + t);
      if (targets[i] < 0) continue;
      const int64_t channel = batch.channel_of[static_cast<size_t>(b)];
      loss(grain, channel) += static_cast<double>(per_token[i]);
      tokens(grain, channel) += 1.0;
    }
}

Tensor to_tensor(Arena& arena, const std::vector<int32_t>& ids, int64_t batch, int64_t length) {
  Tensor tensor = empty(arena, {batch, length}, Dtype::i32, Category::activations);
  if (arena.queue().device() != Device::null)
    copy_from_host(tensor, ids.data(), ids.size() * sizeof(int32_t));
  return tensor;
}

MicroBatch StepRunner::micro_batch(const TrainState& state, const Batch& batch) const {
  // Of sequences that are shared, this rank's tokens.
  const ContextParallel* context = options_.context;
  const int64_t length = context == nullptr ? batch.seq_len : context->seq_len();
  const auto own = [&](const std::vector<int32_t>& values) {
    const bool whole = context == nullptr || arena_.queue().device() == Device::null;
    return to_tensor(arena_, whole ? values : context->take(values, batch.num_sequences), batch.num_sequences,
                     length);
  };
  return {{.seed = state.seed,
           .step = static_cast<uint64_t>(state.step + 1),
           .first_sequence = batch.first_index,
           .num_sequences = batch.num_sequences,
           .seq_len = length,
           .part = context == nullptr ? nullptr : &context->part(),
           .document_starts = batch.document_starts.empty() ? Tensor{}
                                                            : to_tensor(arena_, batch.document_starts,
                                                                        batch.num_sequences, batch.seq_len),
           .record = true,
           .dropout = true,
           .loss_scale = static_cast<float>(state.loss_scale.scale)},
          own(batch.tokens),
          own(batch.targets)};
}

void StepRunner::run_grain(const TrainState& state, int64_t grain, const Batch& batch, Losses& losses,
                           ExpertLoads& experts, StepParts& seconds) {
  const Span span(options_.trace, "grain", "step");
  const MicroBatch of_grain = micro_batch(state, batch);
  Tape tape(of_grain.context);
  parallel_.begin_grain(tape, grain);
  Var loss;
  const double start = now_seconds(), waited = parallel_.comm_seconds();
  {
    const Span forward(options_.trace, "forward", "step");
    loss = model_.loss(tape, of_grain.ids, of_grain.targets, options_.recompute);
  }
  losses.add(grain, batch, options_.context, loss.value);
  const double middle = now_seconds(), waited_forward = parallel_.comm_seconds();
  {
    const Span backward(options_.trace, "backward", "step");
    tape.backward(loss);
  }
  parallel_.end_grain();
  experts.take(grain);
  seconds.forward += middle - start - (waited_forward - waited);
  seconds.backward += now_seconds() - middle - (parallel_.comm_seconds() - waited_forward);
}

// Micro-batch i is the rank's i-th grain.
void StepRunner::run_pipeline(const TrainState& state, const std::vector<int64_t>& grains,
                              const std::vector<Batch>& batches, Losses& losses, ExpertLoads& experts,
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

double StepRunner::reduce_losses(Losses& losses, StepResult& result) {
  losses.stop() = options_.stop != nullptr && options_.stop->load() > 0 ? 1.0 : 0.0;
  if (options_.tensor_group != nullptr)
    options_.tensor_group->all_reduce(&losses.stop(), 1, Dtype::f64, "stop").wait();
  group_.all_reduce(losses.values.data(), static_cast<int64_t>(losses.values.size()), Dtype::f64, "losses")
      .wait();
  result.stop = losses.stop() > 0.0;
  const auto column = [&](auto&& value) {
    std::vector<double> grains;
    for (int64_t grain = 0; grain < options_.num_grains; ++grain) grains.push_back(value(grain));
    return tree_sum(grains);
  };
  double tokens = 0.0;
  for (int64_t c = 0; c < options_.num_channels; ++c) {
    const double channel_tokens = column([&](int64_t g) { return losses.tokens(g, c); });
    const double channel_loss = column([&](int64_t g) { return losses.loss(g, c); });
    result.channel_loss.push_back(channel_loss / channel_tokens);
    tokens += channel_tokens;
  }
  // Of each grain all channels first, in their order, then the grains in the tree.
  result.loss = column([&](int64_t g) {
                  double sum = 0.0;
                  for (int64_t c = 0; c < options_.num_channels; ++c) sum += losses.loss(g, c);
                  return sum;
                }) /
                tokens;
  result.tokens = static_cast<int64_t>(tokens);
  const auto [first, last] = parallel_.summed_grains(options_.num_grains);
  double summed = 0.0;
  for (int64_t grain = first; grain < last; ++grain)
    for (int64_t c = 0; c < options_.num_channels; ++c) summed += losses.tokens(grain, c);
  return summed;
}

// What several ranks hold of the model in common, once they have the gradients of all grains.
void StepRunner::sum_shared_gradients() {
  const auto grad_of = [this](Param& param) -> const Tensor& { return parallel_.grad(param); };
  if (options_.tensor_group != nullptr)
    sum_partial_gradients(model_.params(), grad_of, *options_.tensor_group);
  if (options_.ends == nullptr) return;
  for (const auto& param : model_.params()) {
    Tensor grad = param->num_uses() > param->uses().size() ? parallel_.grad(*param) : Tensor{};
    if (grad.defined() && grad.numel() > 0) add_tied_uses(*options_.ends, grad, param->name()).wait();
  }
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
  Losses losses(options_.num_grains, options_.num_channels);
  ExpertLoads experts(model_.moe_layers(), options_.num_grains);
  parallel_.begin_step(options_.num_grains, state.updates + 1);
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
  result.applied = state.loss_scale.update(std::isfinite(norm_of_sums));
  if (result.applied) {
    const double clip =
        options_.clip_norm > 0.0 && parallel_.sums_gradients() && result.grad_norm > options_.clip_norm
            ? options_.clip_norm / (result.grad_norm + 1e-6)
            : 1.0;
    if (options_.outer != nullptr) options_.outer->begin();
    optimizer_.step([this](Param& param) -> const Tensor& { return parallel_.grad(param); },
                    {.update = state.updates + 1, .lr = result.lr, .grad_scale = to_mean * clip});
    if (options_.outer != nullptr && options_.outer->due(step)) options_.outer->sync();
    parallel_.publish();
    experts.balance();
    ++state.updates;
  }
  state.step = step;
  state.tokens += result.tokens;
  result.seconds.update = now_seconds() - reduced;
  return result;
}

}  // namespace athanor
