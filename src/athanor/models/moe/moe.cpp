#include "athanor/models/moe/moe.h"

namespace athanor {
namespace {

MoeOptions options_of(const ModelConfig& c) {
  RouterOptions router{.score = c.router == "sigmoid" ? RouterScore::sigmoid : RouterScore::softmax,
                       .renormalize = c.router_renormalize,
                       .scale = static_cast<float>(c.router_scale),
                       .aux_loss = static_cast<float>(c.router_aux_loss),
                       .z_loss = static_cast<float>(c.router_z_loss)};
  return {.width = c.width,
          .experts = c.experts,
          .expert_width = c.expert_width,
          .shared_width = c.shared_experts * c.expert_width,
          .route = {router, c.experts_per_token, c.capacity_factor},
          .bias_rate = c.router_bias_rate,
          .init_std = c.init_std,
          .output_init_std = residual_init_std(c)};
}

std::unique_ptr<FeedForward> make_feed_forward(const ModelConfig& c, Module* block, int64_t index) {
  if (index < c.dense_layers) return make_llama_mlp(block, c);
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

double Moe::part_used_by_a_token(const Param& param) const {
  const ModelConfig& c = config();
  return param.is_stack() ? static_cast<double>(c.experts_per_token) / static_cast<double>(c.experts) : 1.0;
}

}  // namespace athanor
