#include "athanor/nn/moe.h"

#include <numeric>
#include <utility>

namespace athanor::nn {

MoeLayer::MoeLayer(Module* parent, const std::string& name, const MoeOptions& o)
    : FeedForward(parent, name),
      options_(o),
      router_(this, "router"),
      experts_(this, "experts"),
      router_weight_(router_.declare("weight", {o.experts, o.width}, Init::normal(o.init_std))),
      gate_(experts_.declare("gate.weight", {o.experts, o.expert_width, o.width}, Init::normal(o.init_std))),
      up_(experts_.declare("up.weight", {o.experts, o.expert_width, o.width}, Init::normal(o.init_std))),
      down_(experts_.declare("down.weight", {o.experts, o.width, o.expert_width},
                             Init::normal(o.output_init_std))),
      bias_(o.bias_rate > 0.0 ? &router_.declare_state("bias", {o.experts}, Init::zeros()) : nullptr),
      shared_(o.shared_width == 0
                  ? nullptr
                  : std::make_unique<SwigluMlp>(
                        this, "shared",
                        SwigluMlp::Options{o.width, o.shared_width, false, o.init_std, o.output_init_std})) {
  take_load();
}

void MoeLayer::split(ExpertExchange& exchange, int rank, int size) {
  check(options_.experts % size == 0, "moe: '{}' has {} experts for {} ranks, expected a number that divides",
        path(), options_.experts, size);
  if (size == 1) return;
  for (Weight* stack : {&gate_, &up_, &down_})
    stack->param().shard({.dim = 0, .axis = "ep", .rank = rank, .size = size});
  exchange_ = &exchange;
}

Var MoeLayer::compute(const Var& rows, const std::vector<int64_t>& counts) const {
  const Var hidden = swiglu(expert_linear(rows, gate_, counts), expert_linear(rows, up_, counts));
  return expert_linear(hidden, down_, counts);
}

// The shared expert is computed between the start and the end of the dispatch, so it overlaps with the transfer of the
// rows, and in the backward pass with that of their gradients.
Var MoeLayer::operator()(const Var& input) const {
  ExpertExchange* const exchange = exchange_;
  const Var x = enter(input);
  const Var logits = router_logits(x, router_weight_);
  const auto [weights, routing] =
      route(logits, bias_ == nullptr ? nullptr : &bias_->value(), options_.route, partition_.get());
  if (x.tape->recording()) note(*routing, x.value.rows());
  const auto& counts = routing->counts.kept;
  const auto plan = exchange == nullptr ? nullptr : exchange->plan(x.value, *routing);
  Var rows = dispatch(x, routing);
  if (plan != nullptr) rows = exchange->start_dispatch(rows, plan);
  const Var shared = shared_ == nullptr ? Var{} : (*shared_)(x);
  if (plan == nullptr) {
    rows = compute(rows, counts);
  } else {
    rows = compute(exchange->finish_dispatch(rows, plan), plan->counts);
    rows = exchange->finish_combine(exchange->start_combine(rows, plan), plan);
  }
  const Var y = combine(rows, weights, routing, x.value.shape());
  return leave(shared_ == nullptr ? y : add(y, shared));
}

void MoeLayer::note(const Routing& routing, int64_t tokens) const {
  const auto& [chosen, kept] = routing.counts;
  for (size_t e = 0; e < chosen.size(); ++e) load_.chosen[e] += chosen[e];
  load_.tokens += tokens;
  load_.dropped += std::accumulate(chosen.begin(), chosen.end(), int64_t{0}) -
                   std::accumulate(kept.begin(), kept.end(), int64_t{0});
  load_.aux_loss += routing.aux_loss;
  load_.z_loss += routing.z_loss;
}

RouterLoad MoeLayer::take_load() const {
  RouterLoad fresh;
  fresh.chosen.assign(static_cast<size_t>(options_.experts), 0);
  return std::exchange(load_, std::move(fresh));
}

void MoeLayer::balance(std::span<const int64_t> chosen) {
  check(std::ssize(chosen) == options_.experts, "moe: got the load of {} experts, expected {}", chosen.size(),
        options_.experts);
  if (bias_ == nullptr || !bias_->defined() || bias_->value().queue().device() == Device::null) return;
  const int64_t sum = std::accumulate(chosen.begin(), chosen.end(), int64_t{0});
  Tensor value = bias_->value();
  std::vector<float> bias(chosen.size());
  copy_to_host(bias.data(), value, value.size_bytes());
  for (size_t e = 0; e < chosen.size(); ++e) {
    const int64_t below_mean = sum - options_.experts * chosen[e];  // exact: E times (mean - load)
    const auto rate = static_cast<float>(options_.bias_rate);
    if (below_mean != 0) bias[e] += below_mean > 0 ? rate : -rate;
  }
  copy_from_host(value, bias.data(), value.size_bytes());
}

}  // namespace athanor::nn
