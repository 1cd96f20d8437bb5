#include "athanor/models/moe/moe.h"

namespace athanor::models::moe {
namespace {

MoeOptions options_of(const ModelConfig& c) {
  RouterOptions router{.score = c.scoring_func == "sigmoid" ? RouterScore::sigmoid : RouterScore::softmax,
                       .renormalize = c.norm_topk_prob,
                       .scale = static_cast<float>(c.routed_scaling_factor),
                       .aux_loss = static_cast<float>(c.router_aux_loss_coef),
                       .z_loss = static_cast<float>(c.router_z_loss_coef)};
  return {.width = c.hidden_size,
          .experts = c.num_experts,
          .expert_width = c.moe_intermediate_size,
          .shared_width = c.n_shared_experts * c.moe_intermediate_size,
          .route = {router, c.num_experts_per_tok, c.capacity_factor},
          .bias_rate = c.router_bias_update_rate,
          .init_std = c.initializer_range,
          .output_init_std = residual_init_std(c)};
}

std::unique_ptr<FeedForward> make_feed_forward(const ModelConfig& c, Module* block, int64_t index) {
  if (index < c.first_k_dense_replace) return make_llama_mlp(block, c);
  return std::make_unique<MoeLayer>(block, "moe", options_of(c));
}

void collect(const Module& module, std::vector<MoeLayer*>& layers) {
  for (Module* child : module.children()) {
    collect(*child, layers);
    if (auto* layer = dynamic_cast<MoeLayer*>(child)) layers.push_back(layer);
  }
}

}  // namespace

Moe::Moe(const ModelConfig& c)
    : Llama(c, [&](Module* block, int64_t index) { return make_feed_forward(c, block, index); }) {}

std::vector<MoeLayer*> Moe::moe_layers() const {
  std::vector<MoeLayer*> layers;
  collect(*this, layers);
  return layers;
}

double Moe::part_used_by_a_token(const ParamSpec& param) const {
  const ModelConfig& c = config();
  return param.is_stack() ? static_cast<double>(c.num_experts_per_tok) / static_cast<double>(c.num_experts)
                          : 1.0;
}

}  // namespace athanor::models::moe
