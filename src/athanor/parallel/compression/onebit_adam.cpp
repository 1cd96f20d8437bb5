#include "athanor/parallel/compression/onebit_adam.h"

#include <algorithm>
#include <cmath>

#include "athanor/kernels/table.h"
#include "athanor/parallel/compression/block_sum.h"
#include "athanor/parallel/compression/exact_sum.h"

namespace athanor {
namespace {

constexpr double kLeastVariance = 0.01;
constexpr int64_t kElementsPerTask = 1 << 14;

std::vector<Param*> trained(const std::vector<std::unique_ptr<Param>>& params) {
  std::vector<Param*> list;
  for (const auto& param : params)
    if (!param->is_state()) list.push_back(param.get());
  return list;
}

template <typename Body>
void for_elements(const Tensor& x, const Body& body) {
  const int64_t count = x.numel();
  x.queue().parallel_for((count + kElementsPerTask - 1) / kElementsPerTask, [&](int64_t task) {
    for (int64_t i = task * kElementsPerTask; i < std::min(count, (task + 1) * kElementsPerTask); ++i)
      body(i);
  });
}

}  // namespace

OneBitAdam::OneBitAdam(const OptimizerOptions& options, const std::vector<std::unique_ptr<Param>>& params,
                       Group& group, const CompressionOptions& compression)
    : options_(options),
      params_(trained(params)),
      group_(group),
      compression_(compression),
      adam_(options, params_) {}

void OneBitAdam::allocate(Arena& arena) {
  adam_.allocate(arena);
  const std::vector<State> states = adam_.states();  // m and v of each
  std::vector<SumTensor> tensors;
  for (size_t i = 0; i < params_.size(); ++i) {
    Param& param = *params_[i];
    const Slot slot{&param, states[2 * i].tensor, states[2 * i + 1].tensor};
    if (!is_compressed(param, compression_)) {
      exact_.push_back(slot);
      continue;
    }
    coded_.push_back(slot);
    tensors.push_back(
        {.name = param.name(), .rows = param.shape()[0], .cols = param.numel() / param.shape()[0]});
  }
  if (!coded_.empty())
    coded_sum_ = std::make_unique<BlockSum>("momentum", std::move(tensors), onebit_code(), group_, arena,
                                            /*error_feedback=*/true);
  if (!exact_.empty()) exact_sum_ = std::make_unique<ExactSum>("momentum, exact", group_, arena);
}

void OneBitAdam::raise_variance() {
  for (const auto* slots : {&coded_, &exact_})
    for (const Slot& slot : *slots) {
      if (slot.v.queue().device() == Device::null) return;
      float* v = slot.v.data<float>();
      double sum = 0.0;
      for (int64_t i = 0; i < slot.v.numel(); ++i) sum += static_cast<double>(v[i]);
      const auto least = static_cast<float>(kLeastVariance * sum / static_cast<double>(slot.v.numel()));
      for_elements(slot.v, [&](int64_t i) { v[i] = std::max(v[i], least); });
    }
}

void OneBitAdam::step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step) {
  if (step.update <= compression_.warmup_updates) return adam_.step(grad, step);
  if (step.update == compression_.warmup_updates + 1) raise_variance();
  const auto beta = static_cast<float>(options_.beta1), kept = beta / static_cast<float>(group_.size()),
             scale = (1.0f - beta) * static_cast<float>(step.grad_scale);
  const auto momenta = [&](const std::vector<Slot>& slots) {
    std::vector<Tensor> parts;
    for (const Slot& slot : slots) {
      const Tensor& part = grad(*slot.param);
      float* g = part.data<float>();
      const float* m = slot.m.data<float>();
      for_elements(part, [&](int64_t i) { g[i] = kept * m[i] + scale * g[i]; });
      parts.push_back(part.flat(0, part.numel()));
    }
    return parts;
  };
  WaitClock clock(nullptr);
  if (coded_sum_) coded_sum_->start(momenta(coded_));
  if (exact_sum_) exact_sum_->start(momenta(exact_));
  for (auto* sum : {coded_sum_.get(), exact_sum_.get()})
    if (sum != nullptr) sum->proceed(clock);
  for (auto* sum : {coded_sum_.get(), exact_sum_.get()})
    if (sum != nullptr) sum->finish(clock);
  // The kernel with decays of one and no gradient leaves m and v alone.
  const AdamwStep update{
      .lr = static_cast<float>(step.lr),
      .beta1 = 1.0f,
      .beta2 = 1.0f,
      .eps = static_cast<float>(options_.eps),
      .correction1 = static_cast<float>(1.0 - std::pow(options_.beta1, step.update)),
      .correction2 = static_cast<float>(
          1.0 - std::pow(options_.beta2, std::max<int64_t>(1, compression_.warmup_updates))),
      .grad_scale = 0.0f};
  for (const auto* slots : {&coded_, &exact_})
    for (const Slot& slot : *slots) {
      const Tensor& sum = grad(*slot.param);
      const float decay = slot.param->is_matrix() ? static_cast<float>(options_.weight_decay) : 0.0f;
      const AdamwTensors tensors{slot.param->master(),         slot.m, slot.v,
                                 slot.param->copy_of_master(), sum,    decay};
      const float* sums = sum.data<float>();
      for_elements(slot.m, [&](int64_t i) {
        tensors.m.data<float>()[i] = tensors.v.data<float>()[i] > 0.0f ? sums[i] : 0.0f;
      });
      kernels(sum).optimizer.adamw(sum.queue(), {&tensors, 1}, update);
    }
}

std::vector<CompressionState> OneBitAdam::compression_states() const {
  std::vector<CompressionState> states;
  if (coded_sum_ == nullptr) return states;
  for (const SumState& state : coded_sum_->states())
    states.push_back({state.kind, coded_[state.tensor].param->uses().front().get(), state.range, state.values,
                      group_.rank(), group_.size()});
  return states;
}

}  // namespace athanor
