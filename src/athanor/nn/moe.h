// A mixture of experts (MoE) in place of a block's MLP. A router sends each token to K of E SwiGLU experts of F
// channels and combines their results with the router's weights. A shared expert, if there is one, sees every token.
//
//   y = sum over the K chosen e of w_e . down_e(swiglu(gate_e(x), up_e(x)))  (+ shared(x))
//
// Two styles. Mixtral (Jiang et al., 2024): softmax scores, balanced by an auxiliary loss. DeepSeek-V3 (DeepSeek-AI,
// 2024; Wang et al., "Auxiliary-loss-free load balancing", 2024): sigmoid scores, shared experts, balanced by a bias
// that affects the choice only. Once per step each expert's bias moves by bias_rate in the direction of (mean load -
// load).
//
//   MoeLayer moe(&block, "moe", options);
//   Var y = moe(x);
//   tape.backward(loss);
//   const RouterLoad load = moe.take_load();              // of the pass: exact counts
//   moe.balance(chosen_in_step);                          // sums over the step and all ranks; moves the bias
//
// Parameters: router.weight [E,C]; experts.gate, experts.up [E,F,C], experts.down [E,C,F] (".weight"); router.bias
// [E], f32, a buffer; shared.gate, .up, .down. The load counts each recorded pass once, also under recompute. Errors:
// Error. Thread rule: that of the model.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "athanor/nn/expert_exchange.h"
#include "athanor/nn/feed_forward.h"
#include "athanor/ops/moe.h"

namespace athanor::nn {

struct MoeOptions {
  int64_t width = 0, experts = 0, expert_width = 0;
  int64_t shared_width = 0;  // 0: no shared expert
  RouteOptions route;
  double bias_rate = 0.0;  // 0: no bias
  double init_std = 0.02, output_init_std = 0.02;
};

// What the router did in the recorded passes since the last take_load().
struct RouterLoad {
  std::vector<int64_t> chosen;          // [E] choices, before any drop
  int64_t tokens = 0, dropped = 0;      // tokens seen; choices dropped
  double aux_loss = 0.0, z_loss = 0.0;  // sums over tokens, without coefficients
};

class MoeLayer : public FeedForward {
 public:
  MoeLayer(Module* parent, const std::string& name, const MoeOptions& options);

  Var operator()(const Var& input) const override;

  const MoeOptions& options() const { return options_; }
  // Sequence parallelism: from now on the input is this rank's rows of a pass.
  void partition_tokens(std::unique_ptr<const TokenPartition> partition) {
    partition_ = std::move(partition);
  }
  // Expert parallelism, before allocation: this rank holds experts [rank, rank + 1) * E / size, and `exchange`, which
  // outlives the model, dispatches and combines rows. Router, bias and shared expert are replicated. Error where E is
  // not a multiple of `size`.
  void split(ExpertExchange& exchange, int rank, int size);
  RouterLoad take_load() const;
  // Moves the bias. `chosen` [E]: the choices of the step on all ranks. Does nothing without a bias, or on a rank that
  // does not hold it.
  void balance(std::span<const int64_t> chosen);

 private:
  void note(const Routing& routing, int64_t tokens) const;
  Var compute(const Var& rows, const std::vector<int64_t>& counts) const;

  MoeOptions options_;
  Module router_, experts_;
  Weight &router_weight_, &gate_, &up_, &down_;
  Param* bias_;
  std::unique_ptr<SwigluMlp> shared_;
  ExpertExchange* exchange_ = nullptr;
  std::unique_ptr<const TokenPartition> partition_;
  mutable RouterLoad load_;
};

}  // namespace athanor::nn
