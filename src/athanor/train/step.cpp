#include "athanor/train/step.h"

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

  int64_t channels;
  std::vector<double> values;
};

Tensor to_tensor(Arena& arena, const std::vector<int32_t>& ids, int64_t batch, int64_t length) {
  Tensor tensor = empty(arena, {batch, length}, Dtype::i32, Category::activations);
  if (arena.queue().device() != Device::null)
    copy_from_host(tensor, ids.data(), ids.size() * sizeof(int32_t));
  return tensor;
}

void StepRunner::run_grain(const TrainState& state, int64_t grain, const Batch& batch, Losses& losses,
                           ExpertLoads& experts, StepParts& seconds) {
  const Span span(options_.trace, "grain", "step");
  PassContext context{.seed = state.seed,
                      .step = static_cast<uint64_t>(state.step + 1),
                      .first_sequence = batch.first_index,
                      .num_sequences = batch.num_sequences,
                      .seq_len = batch.seq_len,
                      .record = true,
                      .dropout = true,
                      .loss_scale = static_cast<float>(state.loss_scale.scale)};
  Tape tape(context);
  parallel_.begin_grain(tape, grain);
  const Tensor ids = to_tensor(arena_, batch.tokens, batch.num_sequences, batch.seq_len);
  const Tensor targets = to_tensor(arena_, batch.targets, batch.num_sequences, batch.seq_len);
  Var loss;
  const double start = now_seconds(), waited = parallel_.comm_seconds();
  {
    const Span forward(options_.trace, "forward", "step");
    loss = model_.loss(tape, ids, targets, options_.recompute);
  }
  if (arena_.queue().device() != Device::null) {
    std::vector<float> per_token(static_cast<size_t>(loss.value.numel()));
    copy_to_host(per_token.data(), loss.value, loss.value.size_bytes());
    for (int64_t b = 0; b < batch.num_sequences; ++b)
      for (int64_t t = 0; t < batch.seq_len; ++t) {
        const auto i = static_cast<size_t>(b * batch.seq_len + t);
        if (batch.targets[i] < 0) continue;
        const int64_t channel = batch.channel_of[static_cast<size_t>(b)];
        losses.loss(grain, channel) += static_cast<double>(per_token[i]);
        losses.tokens(grain, channel) += 1.0;
      }
  }
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

void StepRunner::reduce_losses(Losses& losses, StepResult& result) {
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
}

// Ranks that share a model have each element once, or count it once.
double StepRunner::gradient_norm(double scale, int64_t step) const {
  const std::vector<double> of_params = parallel_.sum_squares(model_.params());
  double squares = 0.0;
  const Param* broken = nullptr;
  for (size_t i = 0; i < of_params.size(); ++i) {
    const Param& param = *model_.params()[i];
    if (!param.is_first_copy()) continue;
    squares += of_params[i];
    if (broken == nullptr && !std::isfinite(squares)) broken = &param;
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
  parallel_.begin_step(options_.num_grains);
  for (const int64_t grain : parallel_.grains_of_step(options_.num_grains)) {
    const double start = now_seconds();
    const Batch& batch = next_batch();
    result.seconds.data += now_seconds() - start;
    run_grain(state, grain, batch, losses, experts, result.seconds);
  }
  parallel_.finish();
  const double start = now_seconds();
  if (options_.tensor_group != nullptr)
    sum_partial_gradients(
        model_.params(), [this](Param& param) -> const Tensor& { return parallel_.grad(param); },
        *options_.tensor_group);
  reduce_losses(losses, result);
  experts.reduce(group_);
  result.experts = experts.summary();
  const double reduced = now_seconds();
  result.seconds.comm = parallel_.comm_seconds() + (reduced - start);

  const Span span(options_.trace, "update", "step");
  const int64_t step = state.step + 1;
  result.loss_scale = state.loss_scale.scale;
  result.lr = options_.schedule.at(step);
  const double norm_of_sums = gradient_norm(state.loss_scale.dynamic ? 0.0 : 1.0, step);
  const double to_mean = 1.0 / (static_cast<double>(result.tokens) * state.loss_scale.scale);
  result.grad_norm = norm_of_sums * to_mean;
  result.applied = state.loss_scale.update(std::isfinite(norm_of_sums));
  if (result.applied) {
    const double clip = options_.clip_norm > 0.0 && result.grad_norm > options_.clip_norm
                            ? options_.clip_norm / (result.grad_norm + 1e-6)
                            : 1.0;
    optimizer_.step([this](Param& param) -> const Tensor& { return parallel_.grad(param); },
                    {.update = state.updates + 1, .lr = result.lr, .grad_scale = to_mean * clip});
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
