#include "athanor/parallel/compression/onebit_adam.h"

#include <algorithm>
#include <limits>

#include "athanor/kernels/table.h"
#include "athanor/parallel/compression/block_sum.h"
#include "athanor/parallel/compression/exact_sum.h"

namespace athanor::parallel::compression {
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

int64_t matrix_elements(const ParamSpec& param) {
  return param.numel() / matrices_of(param).count;
}

FlatRange matrix_of(const ParamSpec& param, size_t index) {
  const int64_t numel = matrix_elements(param), first = static_cast<int64_t>(index) * numel;
  return {first, first + numel};
}

FlatRange in_both(const FlatRange& a, const FlatRange& b) {
  const int64_t first = std::max(a.first, b.first);
  return {first, std::max(first, std::min(a.last, b.last))};
}

// Calls body(elements, matrix) for each cell: a norm block, or the part of one that lies in one matrix. Shards begin at
// norm blocks (shard_layout.h), so a cell lies in one shard.
template <typename Body>
void for_cells(const ParamSpec& param, const Body& body) {
  const int64_t matrix = matrix_elements(param);
  for (int64_t first = 0, last = 0; first < param.numel(); first = last) {
    last = std::min((first / kNormBlock + 1) * kNormBlock, (first / matrix + 1) * matrix);
    body(FlatRange{first, last}, static_cast<size_t>(first / matrix));
  }
}

}  // namespace

OneBitAdam::OneBitAdam(const OptimizerOptions& options, const std::vector<std::unique_ptr<Param>>& params,
                       RanksOf ranks_of, const CompressionOptions& compression)
    : AdamW(options, trained(params)), ranks_of_(std::move(ranks_of)), compression_(compression) {}

void OneBitAdam::allocate(Arena& arena) {
  AdamW::allocate(arena);
  arena_ = &arena;
  add_slots();
  std::vector<Group*> groups;
  for (const Slot& slot : slots_)
    if (std::find(groups.begin(), groups.end(), slot.ranks.group) == groups.end())
      groups.push_back(slot.ranks.group);
  for (Group* group : groups)
    for (const bool coded : {true, false}) add_part(*group, coded);
}

void OneBitAdam::add_slots() {
  const std::vector<State> kept = states();  // m and v of each parameter
  int64_t others = 0;
  for (size_t i = 0; i < kept.size(); i += 2) {
    Param& param = *kept[i].param;
    others += param.numel() - param.range().count();
    slots_.push_back({&param, ranks_of_(param), kept[i].tensor, kept[i + 1].tensor, Tensor{}, Tensor{}});
  }
  if (others == 0) return;
  others_ = zeros(*arena_, {others}, Dtype::f32, Category::optimizer);
  int64_t at = 0;
  const auto take = [&](int64_t count) {
    at += count;
    return count > 0 ? others_.flat(at - count, count) : Tensor{};
  };
  for (Slot& slot : slots_) {
    slot.before = take(slot.param->range().first);
    slot.after = take(slot.param->numel() - slot.param->range().last);
  }
}

void OneBitAdam::add_part(Group& group, bool coded) {
  Part part{.group = &group, .slots = {}, .sum = nullptr};
  std::vector<SumTensor> tensors;
  for (Slot& slot : slots_) {
    if (slot.ranks.group != &group || (group.size() > 1 && is_compressed(*slot.param, compression_)) != coded)
      continue;
    part.slots.push_back(&slot);
    tensors.push_back({.name = slot.param->name(), .rows = 1, .cols = slot.param->numel()});
  }
  if (tensors.empty()) return;
  if (coded)
    part.sum = std::make_unique<BlockSum>("momentum", std::move(tensors), onebit_code(), group, *arena_,
                                          /*error_feedback=*/true);
  else
    part.sum = std::make_unique<ExactSum>("momentum, exact", group, *arena_);
  parts_.push_back(std::move(part));
}

void OneBitAdam::begin(bool raise) {
  for (Slot& slot : slots_) {
    raise_variance(slot, raise);
    gather_momentum(slot);
  }
  begun_ = true;
}

// The sum of v over each matrix, with the same bits for any partition.
std::vector<double> OneBitAdam::sum_variance(const Slot& slot) const {
  int64_t num_cells = 0;
  for_cells(*slot.param, [&](const FlatRange&, size_t) { ++num_cells; });
  const Tensor cells = zeros(*arena_, {num_cells}, Dtype::f64, Category::communication);
  std::vector<double> sums(static_cast<size_t>(matrices_of(*slot.param).count), 0.0);
  if (arena_->queue().device() == Device::null) return sums;
  const FlatRange own = slot.param->range();
  double* cell = cells.data<double>();
  for_cells(*slot.param, [&](const FlatRange& elements, size_t) {
    if (own.first <= elements.first && elements.last <= own.last) {
      const float* v = slot.v.data<float>() + (elements.first - own.first);
      for (int64_t i = 0; i < elements.count(); ++i) *cell += double{v[i]};
    }
    ++cell;
  });
  if (!slot.ranks.pieces.empty())  // cells of other ranks are zero here
    slot.ranks.group->all_reduce(cells.raw(), num_cells, Dtype::f64, "variance of " + slot.param->name())
        .wait();
  cell = cells.data<double>();
  for_cells(*slot.param, [&](const FlatRange&, size_t matrix) { sums[matrix] += *cell++; });
  return sums;
}

// Raises small v to the lower bound: all of them, or (`all` false) zeros only. A matrix with a gradient has no zero v
// after its own warm-up, but may have some if the state comes from plain AdamW.
void OneBitAdam::raise_variance(Slot& slot, bool all) {
  const FlatRange own = slot.param->range();
  slot.moves.clear();
  for (const double sum : sum_variance(slot)) {
    const FlatRange matrix = matrix_of(*slot.param, slot.moves.size()), mine = in_both(matrix, own);
    slot.moves.push_back(sum > 0.0);
    if (sum == 0.0 || mine.count() == 0) continue;
    const float least =
        std::max(static_cast<float>(kLeastVariance * sum / static_cast<double>(matrix.count())),
                 std::numeric_limits<float>::min());
    const Tensor part = slot.v.flat(mine.first - own.first, mine.count());
    float* v = part.data<float>();
    for_each_element(part, [&](int64_t i) {
      if (all || v[i] == 0.0f) v[i] = std::max(v[i], least);
    });
  }
}

// Broadcasts each rank's shard of the momentum directly into its final place.
void OneBitAdam::gather_momentum(const Slot& slot) const {
  const FlatRange own = slot.param->range();
  std::vector<Work> works;
  for (size_t rank = 0; rank < slot.ranks.pieces.size(); ++rank) {
    const FlatRange& piece = slot.ranks.pieces[rank];
    if (piece.count() == 0) continue;
    const bool is_own = static_cast<int>(rank) == slot.ranks.group->rank(),
               is_before = piece.last <= own.first;
    const Tensor& there = is_own ? slot.m : is_before ? slot.before : slot.after;
    const int64_t first = piece.first - (is_own ? own.first : is_before ? 0 : own.last);
    works.push_back(slot.ranks.group->broadcast(there.flat(first, piece.count()).raw(), piece.count(),
                                                Dtype::f32, static_cast<int>(rank),
                                                "momentum of " + slot.param->name()));
  }
  for (Work& work : works) work.wait();
}

std::vector<Tensor> OneBitAdam::momenta(const Part& part, const std::function<const Tensor&(Param&)>& grad,
                                        const OptimizerStep& step) const {
  const auto beta = static_cast<float>(options().beta1),
             scale = (1.0f - beta) * static_cast<float>(step.grad_scale),
             kept = beta / static_cast<float>(part.group->size());
  std::vector<Tensor> all;
  for (const Slot* slot : part.slots) {
    const Tensor& whole = grad(*slot->param);
    check(whole.numel() == slot->param->numel(),
          "1-bit Adam: got {} elements of a gradient of '{}', expected {}", whole.numel(),
          slot->param->name(), slot->param->numel());
    float* g = whole.data<float>();
    for (const Tensor* piece : {&slot->before, &slot->m, &slot->after}) {
      if (!piece->defined()) continue;
      const float* m = piece->data<float>();
      for_each_element(*piece, [&](int64_t i) { g[i] = kept * m[i] + scale * g[i]; });
      g += piece->numel();
    }
    all.push_back(whole.flat(0, whole.numel()));
  }
  return all;
}

void OneBitAdam::keep_momentum(const Slot& slot, const Tensor& sum) const {
  for (size_t i = 0; i < slot.moves.size(); ++i)
    if (const FlatRange still = matrix_of(*slot.param, i); !slot.moves[i]) {
      Tensor zero = sum.flat(still.first, still.count());
      fill_zero(zero);
    }
  const float* sums = sum.data<float>();
  for (const Tensor* piece : {&slot.before, &slot.m, &slot.after}) {
    if (!piece->defined()) continue;
    float* m = piece->data<float>();
    for_each_element(*piece, [&](int64_t i) { m[i] = sums[i]; });
    sums += piece->numel();
  }
}

void OneBitAdam::step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step) {
  if (step.update <= compression_.warmup_updates) {
    begun_ = false;
    return AdamW::step(grad, step);
  }
  if (!begun_) begin(/*raise=*/step.update == compression_.warmup_updates + 1);
  WaitClock clock(nullptr);
  for (const Part& part : parts_) part.sum->start(momenta(part, grad, step));
  for (const Part& part : parts_) part.sum->proceed(clock);
  for (const Part& part : parts_) part.sum->finish(clock);
  // With beta1 = beta2 = 1 and a gradient of zero the AdamW kernel leaves m and v unchanged.
  const AdamwStep update{
      .lr = static_cast<float>(step.lr),
      .beta1 = 1.0f,
      .beta2 = 1.0f,
      .eps = static_cast<float>(options().eps),
      .correction1 = correction(options().beta1, step.update),
      .correction2 = correction(options().beta2, std::max<int64_t>(1, compression_.warmup_updates)),
      .grad_scale = 0.0f};
  for (const Part& part : parts_)
    for (const Slot* slot : part.slots) {
      const Tensor& sum = grad(*slot->param);
      keep_momentum(*slot, sum);
      const FlatRange own = slot->param->range();
      if (own.count() == 0) continue;
      const AdamwTensors tensors{.master = slot->param->master(),
                                 .m = slot->m,
                                 .v = slot->v,
                                 .value = slot->param->copy_of_master(),
                                 .grad = sum.flat(own.first, own.count()).view(slot->param->kept_shape()),
                                 .weight_decay = weight_decay_of(*slot->param),
                                 .lr_ratio = lr_ratio_of(*slot->param)};
      kernels_of(sum).optimizer.adamw(sum.queue(), {&tensors, 1}, update);
    }
}

std::vector<ExchangeState> OneBitAdam::exchange_states() const {
  std::vector<ExchangeState> states;
  for (const Part& part : parts_)
    for (const SumState& state : part.sum->states()) {
      const Slot& slot = *part.slots[state.tensor];
      states.push_back({state.kind, slot.param->uses().front().get(), state.range, state.values,
                        part.group->rank(), part.group->size()});
    }
  return states;
}

}  // namespace athanor::parallel::compression
