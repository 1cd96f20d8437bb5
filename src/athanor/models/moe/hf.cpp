#include "athanor/models/moe/hf.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/config/validate.h"
#include "athanor/models/hf_windows.h"
#include "athanor/models/llama/hf.h"

namespace athanor::models::moe {
namespace {

using Json = nlohmann::ordered_json;

ModelConfig read_mixtral_config(const HfConfig& config) {
  ModelConfig model = read_llama_config(
      config,
      {.kv_heads = 8, .max_seq_len = 131072, .norm_eps = 1e-5, .rope_base = 1e6, .has_windows = true});
  model.model_type = "mixtral";
  model.num_experts = config.integer("num_local_experts", 8);
  model.num_experts_per_tok = config.integer("num_experts_per_tok", 2);
  model.moe_intermediate_size = model.intermediate_size;
  model.router_aux_loss_coef = config.number("router_aux_loss_coef", 0.001);
  for (const auto& [key, value] : {std::pair{"num_local_experts", model.num_experts},
                                   std::pair{"num_experts_per_tok", model.num_experts_per_tok}})
    if (value < 1) config.refuse(key, "got 0, expected at least 1");
  if (model.bias) config.refuse("attention_bias", "got true, expected false");
  if (const double noise = config.number("router_jitter_noise", 0.0); noise != 0.0)
    config.refuse("router_jitter_noise", fmt::format("got {}, expected 0", noise));
  return model;
}

void write_mixtral_config(const ModelConfig& model, Json& config) {
  const std::string unlike = unlike_mixtral(model);
  check(unlike.empty(), "export: {}, as a Mixtral has", unlike);
  write_llama_config(model, config);
  config["intermediate_size"] = model.moe_intermediate_size;
  config["num_local_experts"] = model.num_experts;
  config["num_experts_per_tok"] = model.num_experts_per_tok;
  config["router_aux_loss_coef"] = model.router_aux_loss_coef;
  config["router_jitter_noise"] = 0.0;
  config["output_router_logits"] = false;
  const std::optional<int64_t> window = window_of(model);
  config["sliding_window"] = window ? Json(*window) : Json();
}

std::vector<HfTensor> mixtral_tensors(const ModelConfig& model) {
  std::vector<HfTensor> all = llama_tensors(model, [&](int64_t layer, std::vector<HfTensor>& block) {
    const std::string there = fmt::format("model.layers.{}.block_sparse_moe.", layer);
    const std::string here = fmt::format("blocks.{}.moe.", layer);
    block.push_back({there + "gate.weight", {here + "router.weight"}});
    for (int64_t e = 0; e < model.num_experts; ++e)
      for (const auto& [theirs, ours] : {std::pair{"w1", "gate"}, {"w2", "down"}, {"w3", "up"}})
        block.push_back({.name = fmt::format("{}experts.{}.{}.weight", there, e, theirs),
                         .parts = {fmt::format("{}experts.{}.weight", here, ours)},
                         .transposed = false,
                         .slice = e});
  });
  return all;
}

bool is_ignored_by_mixtral(std::string_view name, const ModelConfig& model) {
  return llama_hf().is_ignored(name, model);
}

}  // namespace

const HfFamily& mixtral_hf() {
  static constexpr HfFamily family = {
      "mixtral",       "MixtralForCausalLM", "model.", read_mixtral_config, write_mixtral_config,
      mixtral_tensors, is_ignored_by_mixtral};
  return family;
}

}  // namespace athanor::models::moe
