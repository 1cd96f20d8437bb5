#include <algorithm>
#include <cmath>
#include <numeric>

#include "athanor/autograd/apply.h"
#include "athanor/autograd/sequence_part.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/moe.h"

namespace athanor::ops {
namespace {

int64_t capacity_of(const RouteOptions& options, int64_t tokens, int64_t experts) {
  const double even = static_cast<double>(tokens * options.experts_per_token) / static_cast<double>(experts);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(options.capacity_factor * even)));
}

// Which tokens of a micro-batch this rank has: the pass may have a part of each sequence (cp), the rank some rows of
// the pass (sp).
struct MicroBatchTokens {
  MicroBatchTokens(const PassContext& context, const TokenPartition* of_pass, int64_t here)
      : part(context.part), partition(of_pass), num_sequences(context.num_sequences), rows{0, here} {
    if (partition != nullptr) {
      rows = partition->own(num_sequences * context.seq_len);
      check(here == rows.count(), "route: got {} tokens of the {} of a pass, expected {}", here,
            num_sequences * context.seq_len, rows.count());
    }
    pass = partition == nullptr ? here : num_sequences * context.seq_len;
    micro_batch = part == nullptr ? pass : num_sequences * part->length;
    most = part == nullptr ? pass : num_sequences * part->most;
    if (partition != nullptr) most = partition->most(most);
  }
  bool are_all() const { return part == nullptr && partition == nullptr; }

  const SequencePart* part;
  const TokenPartition* partition;
  int64_t num_sequences;
  FlatRange rows;  // this rank's rows of the pass
  int64_t pass = 0, micro_batch = 0,
          most = 0;  // tokens of the pass, of the micro-batch, and the most on any rank
};

// The choices of experts in a micro-batch.
struct MicroBatchChoices {
  std::vector<int64_t> chosen;  // [E], before any drop
  // [E]: how many of this rank's choices are within the capacity of the micro-batch; empty: all.
  std::vector<int64_t> capacity;
};

std::vector<int32_t> gathered(const Tensor& experts, const MicroBatchTokens& tokens) {
  std::vector<int32_t> all(static_cast<size_t>(experts.numel()));
  if (tokens.partition != nullptr)
    all = tokens.partition->of_all(experts, tokens.pass);
  else
    copy_to_host(all.data(), experts, experts.size_bytes());
  return tokens.part == nullptr ? all : tokens.part->of_all(all, tokens.num_sequences);
}

// `capacity`: of each expert in the micro-batch; 0: no limit.
MicroBatchChoices choices_of_micro_batch(const Tensor& experts, int64_t num_experts, int64_t capacity,
                                         const MicroBatchTokens& tokens) {
  MicroBatchChoices micro_batch{std::vector<int64_t>(static_cast<size_t>(num_experts), 0), {}};
  if (capacity > 0) micro_batch.capacity = micro_batch.chosen;
  const std::vector<int32_t> all = gathered(experts, tokens);
  const int64_t width = experts.dim(1);
  const auto [first, last] = tokens.rows;
  std::vector<char> is_own(all.size(), 0);
  const auto own = [&](int64_t, int64_t place, int64_t count) {
    std::fill_n(is_own.begin() + place * width, count * width, 1);
  };
  if (tokens.part == nullptr)
    own(first, first, last - first);
  else
    walk_tokens(*tokens.part, first, last, tokens.num_sequences, own);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto e = static_cast<size_t>(all[i]);
    if (micro_batch.chosen[e]++ < capacity && is_own[i] != 0) ++micro_batch.capacity[e];
  }
  return micro_batch;
}

// The share of all choices that each expert got, before any drop. [E] f32
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

// The choice of experts and its weights; kernels/router.h has the formulas. The auxiliary losses are not values on the
// tape: their gradients are added to that of the logits here, as gradients of sums over tokens, like the loss's.
struct Route {
  struct Saved {
    Tensor logits, experts, lse, share;
    RouterOptions options;
    float loss_scale = 1.0f;
  };

  static Tensor forward(Saved& saved, const PassContext& context, const Tensor& logits, const Tensor* bias,
                        const RouteOptions& options, const TokenPartition* partition,
                        const std::shared_ptr<Routing>& routing) {
    check(logits.shape().dims() == 2, "route: logits are {}, expected [N,E]", logits.shape());
    const int64_t tokens = logits.dim(0), experts = logits.dim(1), chosen = options.experts_per_token;
    check(chosen >= 1 && chosen <= experts, "route: got {} experts per token, expected 1 to {}", chosen,
          experts);
    Arena& arena = logits.arena();
    const auto& kernel = kernels_of(logits);
    const auto make = [&](const Shape& shape, Dtype dtype, Category category = Category::activations) {
      return empty(arena, shape, dtype, category);
    };
    Tensor weights = make({tokens, chosen}, Dtype::f32), lse = make({tokens}, Dtype::f32);
    Tensor sums = make({experts + 1}, Dtype::f64, Category::workspace);
    Tensor rows = make({tokens * chosen}, Dtype::i32);
    routing->experts = make({tokens, chosen}, Dtype::i32);
    routing->places = make({tokens, chosen}, Dtype::i32);
    kernel.router.forward(logits.queue(), routing->experts, weights, lse, sums, logits, bias, options.router);
    const MicroBatchTokens here(context, partition, tokens);
    routing->most_tokens = here.most;
    const bool drops = context.dropout && options.capacity_factor > 0.0;
    const int64_t capacity = drops ? capacity_of(options, here.micro_batch, experts) : 0;
    routing->capacity = capacity;
    MicroBatchChoices micro_batch;
    if (drops) micro_batch.capacity.assign(static_cast<size_t>(experts), capacity);
    // Drops need the choices of the whole micro-batch, and so does the balancing loss of recorded passes.
    const bool gathers =
        !here.are_all() && (drops || context.record) && logits.queue().device() != Device::null;
    if (gathers) micro_batch = choices_of_micro_batch(routing->experts, experts, capacity, here);
    routing->counts = kernel.token_rows.assign(logits.queue(), routing->places, rows, routing->experts,
                                               experts, micro_batch.capacity);
    const auto& kept = routing->counts.kept;
    routing->tokens = rows.slice(0, std::accumulate(kept.begin(), kept.end(), int64_t{0}));
    const Tensor share = share_of(gathers ? micro_batch.chosen : routing->counts.chosen, arena);
    take_losses(*routing, sums, share);
    saved = {logits, routing->experts, lse, share, options.router, context.loss_scale};
    return weights;
  }

  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    Tensor dlogits = empty_like(saved.logits);
    kernels_of(dy).router.backward(dy.queue(), dlogits, dy, saved.logits, saved.experts, saved.lse,
                                   saved.share, saved.options, saved.loss_scale);
    return {dlogits};
  }
};

}  // namespace

RoutedTokens route(const Var& logits, const Tensor* bias, const RouteOptions& options,
                   const TokenPartition* partition) {
  auto routing = std::make_shared<Routing>();
  const Var weights = apply<Route>(*logits.tape, logits, bias, options, partition, routing);
  return {weights, std::move(routing)};
}

}  // namespace athanor::ops
