#include "athanor/models/moe/hf.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/models/llama/hf.h"

namespace athanor {
namespace {

using Json = nlohmann::ordered_json;

ModelConfig read_mixtral_config(const HfConfig& config) {
  ModelConfig model =
      read_llama_config(config, {.kv_heads = 8, .max_seq_len = 131072, .norm_eps = 1e-5, .rope_base = 1e6});
  model.family = "moe";
  model.experts = config.integer("num_local_experts", 8);
  model.experts_per_token = config.integer("num_experts_per_tok", 2);
  model.expert_width = model.ffn_width;
  model.router_aux_loss = config.number("router_aux_loss_coef", 0.001);
  for (const auto& [key, value] : {std::pair{"num_local_experts", model.experts},
                                   std::pair{"num_experts_per_tok", model.experts_per_token}})
    if (value < 1) config.refuse(key, "got 0, expected at least 1");
  if (model.bias) config.refuse("attention_bias", "got true, expected false");
  if (const double noise = config.number("router_jitter_noise", 0.0); noise != 0.0)
    config.refuse("router_jitter_noise", fmt::format("got {}, expected 0", noise));
  return model;
}

void check_is_mixtral(const ModelConfig& m) {
  const auto expect = [](bool is_so, const char* key, const char* expected) {
    check(is_so, "export: model.{} is not that of a Mixtral, expected {}", key, expected);
  };
  expect(m.router == "softmax", "router", "softmax");
  expect(m.router_renormalize, "router_renormalize", "true");
  expect(m.router_scale == 1.0, "router_scale", "1");
  expect(m.router_bias_rate == 0.0, "router_bias_rate", "0");
  expect(m.shared_experts == 0, "shared_experts", "none");
  expect(m.dense_layers == 0, "dense_layers", "none");
}

void write_mixtral_config(const ModelConfig& model, Json& config) {
  check_is_mixtral(model);
  write_llama_config(model, config);
  config["intermediate_size"] = model.expert_width;
  config["num_local_experts"] = model.experts;
  config["num_experts_per_tok"] = model.experts_per_token;
  config["router_aux_loss_coef"] = model.router_aux_loss;
  config["router_jitter_noise"] = 0.0;
  config["output_router_logits"] = false;
  config["sliding_window"] = nullptr;
}

std::vector<HfTensor> mixtral_tensors(const ModelConfig& model) {
  std::vector<HfTensor> all = llama_tensors(model, [&](int64_t layer, std::vector<HfTensor>& block) {
    const std::string there = fmt::format("model.layers.{}.block_sparse_moe.", layer);
    const std::string here = fmt::format("blocks.{}.moe.", layer);
    block.push_back({there + "gate.weight", {here + "router.weight"}});
    for (int64_t e = 0; e < model.experts; ++e)
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
  static constexpr HfFamily family = {"moe",
                                      "mixtral",
                                      "MixtralForCausalLM",
                                      "model.",
                                      read_mixtral_config,
                                      write_mixtral_config,
                                      mixtral_tensors,
                                      is_ignored_by_mixtral};
  return family;
}

}  // namespace athanor
