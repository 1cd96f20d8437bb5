#include <algorithm>
#include <cmath>
#include <numeric>

#include "athanor/autograd/apply.h"
#include "athanor/autograd/sequence_part.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/moe.h"

namespace athanor {
namespace {

int64_t capacity_of(const RouteOptions& options, int64_t tokens, int64_t experts) {
  const double even = static_cast<double>(tokens * options.experts_per_token) / static_cast<double>(experts);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(options.capacity_factor * even)));
}

// The choices of a grain, of whose tokens the pass may have only a part.
struct GrainChoices {
  std::vector<int64_t> chosen;  // [E], before any drop
  // [E]: how many choices of the pass are within the capacity of the grain; empty: all.
  std::vector<int64_t> capacity;
};

// `capacity`: of each expert in the grain, 0: any.
GrainChoices choices_of_grain(const Tensor& experts, int64_t num_experts, int64_t capacity,
                              const PassContext& context) {
  const SequencePart& part = *context.part;
  GrainChoices grain{std::vector<int64_t>(static_cast<size_t>(num_experts), 0), {}};
  if (capacity > 0) grain.capacity = grain.chosen;
  const std::vector<int32_t> all = part.of_all(experts, context.num_sequences);
  const int64_t width = experts.dim(1);
  std::vector<char> is_own(all.size(), 0);
  walk_tokens(part, 0, experts.dim(0), context.num_sequences, [&](int64_t, int64_t place, int64_t count) {
    std::fill_n(is_own.begin() + place * width, count * width, 1);
  });
  for (size_t i = 0; i < all.size(); ++i) {
    const auto e = static_cast<size_t>(all[i]);
    if (grain.chosen[e]++ < capacity && is_own[i] != 0) ++grain.capacity[e];
  }
  return grain;
}

// The part of all choices that fell on each expert, before any drop. [E] f32
Tensor share_of(const std::vector<int64_t>& chosen, Arena& arena) {
  const auto all =
      static_cast<double>(std::max<int64_t>(1, std::accumulate(chosen.begin(), chosen.end(), int64_t{0})));
  std::vector<float> share;
  share.reserve(chosen.size());
  for (const int64_t count : chosen) share.push_back(static_cast<float>(static_cast<double>(count) / all));
  Tensor tensor = empty(arena, {static_cast<int64_t>(share.size())}, Dtype::f32, Category::activations);
  copy_from_host(tensor, share.data(), tensor.size_bytes());
  return tensor;
}

void take_losses(Routing& routing, const Tensor& sums, const Tensor& share) {
  if (sums.queue().device() == Device::null) return;
  const auto experts = static_cast<size_t>(share.numel());
  std::vector<float> shares(experts);
  std::vector<double> totals(experts + 1);
  copy_to_host(shares.data(), share, share.size_bytes());
  copy_to_host(totals.data(), sums, sums.size_bytes());
  double even = 0.0;
  for (size_t e = 0; e < experts; ++e) even += static_cast<double>(shares[e]) * totals[e];
  routing.aux_loss = static_cast<double>(experts) * even;
  routing.z_loss = totals[experts];
}

// The choice and its weights; the formulas are those of kernels/router.h. The auxiliary losses have no value on the
// tape: their gradients are added to that of the logits here, those of sums over tokens like the loss itself.
struct Route {
  struct Saved {
    Tensor logits, experts, lse, share;
    RouterOptions options;
    float loss_scale = 1.0f;
  };

  static Tensor forward(Saved& saved, const PassContext& context, const Tensor& logits, const Tensor* bias,
                        const RouteOptions& options, const std::shared_ptr<Routing>& routing) {
    check(logits.shape().dims() == 2, "route: logits are {}, expected [N,E]", logits.shape());
    const int64_t tokens = logits.dim(0), experts = logits.dim(1), chosen = options.experts_per_token;
    check(chosen >= 1 && chosen <= experts, "route: got {} experts per token, expected 1 to {}", chosen,
          experts);
    Arena& arena = logits.arena();
    const auto& kernel = kernels(logits);
    const auto make = [&](const Shape& shape, Dtype dtype, Category category = Category::activations) {
      return empty(arena, shape, dtype, category);
    };
    Tensor weights = make({tokens, chosen}, Dtype::f32), lse = make({tokens}, Dtype::f32);
    Tensor sums = make({experts + 1}, Dtype::f64, Category::workspace);
    Tensor rows = make({tokens * chosen}, Dtype::i32);
    routing->experts = make({tokens, chosen}, Dtype::i32);
    routing->places = make({tokens, chosen}, Dtype::i32);
    kernel.router.forward(logits.queue(), routing->experts, weights, lse, sums, logits, bias, options.router);
    const int64_t of_grain = context.part == nullptr ? tokens : context.num_sequences * context.part->length;
    const bool drops = context.dropout && options.capacity_factor > 0.0;
    const int64_t capacity = drops ? capacity_of(options, of_grain, experts) : 0;
    GrainChoices grain;
    if (drops) grain.capacity.assign(static_cast<size_t>(experts), capacity);
    const bool is_part = context.part != nullptr && logits.queue().device() != Device::null;
    if (is_part) grain = choices_of_grain(routing->experts, experts, capacity, context);
    routing->counts = kernel.token_rows.assign(logits.queue(), routing->places, rows, routing->experts,
                                               experts, grain.capacity);
    const auto& kept = routing->counts.kept;
    routing->tokens = rows.slice(0, std::accumulate(kept.begin(), kept.end(), int64_t{0}));
    const Tensor share = share_of(is_part ? grain.chosen : routing->counts.chosen, arena);
    take_losses(*routing, sums, share);
    saved = {logits, routing->experts, lse, share, options.router, context.loss_scale};
    return weights;
  }

  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    Tensor dlogits = empty_like(saved.logits);
    kernels(dy).router.backward(dy.queue(), dlogits, dy, saved.logits, saved.experts, saved.lse, saved.share,
                                saved.options, saved.loss_scale);
    return {dlogits};
  }
};

}  // namespace

RoutedTokens route(const Var& logits, const Tensor* bias, const RouteOptions& options) {
  auto routing = std::make_shared<Routing>();
  const Var weights = apply<Route>(*logits.tape, logits, bias, options, routing);
  return {weights, std::move(routing)};
}

}  // namespace athanor
