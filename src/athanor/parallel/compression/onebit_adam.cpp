#include "athanor/parallel/compression/onebit_adam.h"

#include <algorithm>
#include <cmath>

#include "athanor/kernels/table.h"
#include "athanor/parallel/compression/block_sum.h"
#include "athanor/parallel/compression/exact_sum.h"

namespace athanor {
namespace {

constexpr double kLeastVariance = 0.01;
constexpr int64_t kAdamElementsPerTask = 1 << 14;

std::vector<Param*> trained(const std::vector<std::unique_ptr<Param>>& params) {
  std::vector<Param*> list;
  for (const auto& param : params)
    if (!param->is_state()) list.push_back(param.get());
  return list;
}

template <typename Body>
void for_each_element(const Tensor& x, const Body& body) {
  const int64_t count = x.numel();
  x.queue().parallel_for((count + kAdamElementsPerTask - 1) / kAdamElementsPerTask, [&](int64_t task) {
    for (int64_t i = task * kAdamElementsPerTask; i < std::min(count, (task + 1) * kAdamElementsPerTask); ++i)
      body(i);
  });
}

}  // namespace

OneBitAdam::OneBitAdam(const OptimizerOptions& options, const std::vector<std::unique_ptr<Param>>& params,
                       const MomentumGroups& groups, const CompressionOptions& compression)
    : AdamW(options, trained(params)), groups_(groups), compression_(compression) {}

void OneBitAdam::allocate(Arena& arena) {
  AdamW::allocate(arena);
  const std::vector<State> kept = states();  // m and v of each
  std::vector<Slot> slots[2][2];             // of experts or not, coded or not
  for (size_t i = 0; i < kept.size(); i += 2) {
    Param& param = *kept[i].param;
    const bool expert = groups_.of(param) != &groups_.group;
    const bool coded = groups_.of(param)->size() > 1 && is_compressed(param, compression_);
    slots[expert][coded].push_back({&param, kept[i].tensor, kept[i + 1].tensor});
  }
  for (const bool expert : {false, true})
    for (const bool coded : {true, false})
      if (auto& some = slots[expert][coded]; !some.empty()) {
        Group& group = *groups_.of(*some.front().param);
        add_part(group, std::move(some), coded, arena);
      }
}

void OneBitAdam::add_part(Group& group, std::vector<Slot> slots, bool coded, Arena& arena) {
  Part part{.group = &group, .slots = std::move(slots), .sum = nullptr};
  if (coded) {
    std::vector<SumTensor> tensors;
    for (const Slot& slot : part.slots) {
      const auto [count, rows, cols] = matrices_of(*slot.param);
      tensors.push_back({.name = slot.param->name(), .rows = count * rows, .cols = cols});
    }
    part.sum = std::make_unique<BlockSum>("momentum", std::move(tensors), onebit_code(), group, arena,
                                          /*error_feedback=*/true);
  } else {
    part.sum = std::make_unique<ExactSum>("momentum, exact", group, arena);
  }
  parts_.push_back(std::move(part));
}

void OneBitAdam::raise_variance() {
  for (const Part& part : parts_)
    for (const Slot& slot : part.slots) {
      if (slot.v.queue().device() == Device::null) return;
      const int64_t count = matrices_of(*slot.param).count, numel = slot.v.numel() / count;
      for (int64_t i = 0; i < count; ++i) {
        const Tensor matrix = slot.v.flat(i * numel, numel);
        float* v = matrix.data<float>();
        double sum = 0.0;
        for (int64_t e = 0; e < numel; ++e) sum += static_cast<double>(v[e]);
        const auto least = static_cast<float>(kLeastVariance * sum / static_cast<double>(numel));
        for_each_element(matrix, [&](int64_t e) { v[e] = std::max(v[e], least); });
      }
    }
}

void OneBitAdam::step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step) {
  if (step.update <= compression_.warmup_updates) return AdamW::step(grad, step);
  if (step.update == compression_.warmup_updates + 1) raise_variance();
  const auto beta = static_cast<float>(options().beta1),
             scale = (1.0f - beta) * static_cast<float>(step.grad_scale);
  const auto momenta = [&](const Part& part) {
    const float kept = beta / static_cast<float>(part.group->size());
    std::vector<Tensor> shares;
    for (const Slot& slot : part.slots) {
      const Tensor& share = grad(*slot.param);
      float* g = share.data<float>();
      const float* m = slot.m.data<float>();
      for_each_element(share, [&](int64_t i) { g[i] = kept * m[i] + scale * g[i]; });
      shares.push_back(share.flat(0, share.numel()));
    }
    return shares;
  };
  WaitClock clock(nullptr);
  for (const Part& part : parts_) part.sum->start(momenta(part));
  for (const Part& part : parts_) part.sum->proceed(clock);
  for (const Part& part : parts_) part.sum->finish(clock);
  // The kernel with decays of one and no gradient leaves m and v alone.
  const AdamwStep update{
      .lr = static_cast<float>(step.lr),
      .beta1 = 1.0f,
      .beta2 = 1.0f,
      .eps = static_cast<float>(options().eps),
      .correction1 = static_cast<float>(1.0 - std::pow(options().beta1, step.update)),
      .correction2 = static_cast<float>(
          1.0 - std::pow(options().beta2, std::max<int64_t>(1, compression_.warmup_updates))),
      .grad_scale = 0.0f};
  for (const Part& part : parts_)
    for (const Slot& slot : part.slots) {
      const Tensor& sum = grad(*slot.param);
      const float decay = slot.param->is_matrix() ? static_cast<float>(options().weight_decay) : 0.0f;
      const AdamwTensors tensors{slot.param->master(),         slot.m, slot.v,
                                 slot.param->copy_of_master(), sum,    decay};
      const float* sums = sum.data<float>();
      for_each_element(slot.m, [&](int64_t i) {
        tensors.m.data<float>()[i] = tensors.v.data<float>()[i] > 0.0f ? sums[i] : 0.0f;
      });
      kernels(sum).optimizer.adamw(sum.queue(), {&tensors, 1}, update);
    }
}

std::vector<CompressionState> OneBitAdam::compression_states() const {
  std::vector<CompressionState> states;
  for (const Part& part : parts_)
    for (const SumState& state : part.sum->states())
      states.push_back({state.kind, part.slots[state.tensor].param->uses().front().get(), state.range,
                        state.values, part.group->rank(), part.group->size()});
  return states;
}

}  // namespace athanor
