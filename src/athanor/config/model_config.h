// [model]: the sizes of a transformer, in LLaMA's names of Hugging Face's config.json, for every architecture.
//
//   config.model.hidden_size = 512;   // 0 in a count: the preset's, else the architecture's default
//
// config/fields_model.cpp says of each key what it does, its limits and its costs. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::config {

struct ModelConfig {
  std::string preset = {};           // "gpt2-124m", "llama-tiny", ... ; empty: the architecture's defaults
  std::string config = {};           // path of a Hugging Face config.json; empty once it has been read
  std::string model_type = "llama";  // llama, gpt2, mixtral, moe or bert
  int64_t num_hidden_layers = 0;     // transformer blocks
  int64_t hidden_size = 0;           // of the residual stream (d_model)
  int64_t num_attention_heads = 0;   //
  int64_t num_key_value_heads = 0;   // grouped-query attention; default: num_attention_heads
  int64_t head_dim = 0;              // default: hidden_size / num_attention_heads
  int64_t intermediate_size =
      0;                   // of the MLP; default: 4 (gpt2, bert) or 8/3 hidden_size, up to a multiple of 64
  int64_t vocab_size = 0;  // default: the tokenizer's, rounded up to a multiple of 64
  int64_t max_position_embeddings = 0;  // the longest context; default: the preset's, else data.seq_len
  bool tie_word_embeddings = false;
  bool bias = false;
  double dropout = 0.0;
  std::string hidden_act =
      {};  // of the MLP: silu (llama), gelu_new (gpt2), gelu or gelu_new (bert); empty: the family's
  int64_t type_vocab_size = 0;  // bert: token types, which tell the texts of a pair apart
  int64_t position_offset =
      0;  // bert: rows of the position table before that of the first position (RoBERTa: 2)
  std::string attention_pattern = "causal";  // masks/pattern.h
  double rope_theta = 10000.0;
  // Scaled rotations (nn/rope_scaling.h).
  std::string rope_scaling = "none";  // none, linear, ntk, llama3, yarn
  double rope_factor = 1.0;           // s
  int64_t rope_original_length = 0;   // L; 0: max_position_embeddings / rope_factor
  double rope_low_freq_factor = 1.0, rope_high_freq_factor = 4.0;  // llama3
  double rope_beta_fast = 32.0, rope_beta_slow = 1.0;              // yarn
  bool rope_truncate = true;                                       // yarn
  double rope_attention_factor = 0.0;                              // yarn; 0: 0.1 ln s + 1
  double rms_norm_eps = 1e-5;  // of RMSNorm, in gpt2 and bert of LayerNorm
  double initializer_range = 0.02;
  // Of mixtral and moe (nn/moe.h): every block but the first first_k_dense_replace has experts in place of the MLP.
  int64_t num_experts = 0;            // routed ones of such a block
  int64_t num_experts_per_tok = 0;    // default: 2
  int64_t moe_intermediate_size = 0;  // of an expert; default: intermediate_size
  int64_t n_shared_experts = 0;       // of moe_intermediate_size each, as one MLP that sees every token
  int64_t first_k_dense_replace = 0;
  std::string scoring_func = "softmax";  // softmax (Mixtral) or sigmoid (DeepSeek-V3)
  bool norm_topk_prob = true;            // the weights of a token's experts sum to routed_scaling_factor
  double routed_scaling_factor = 1.0;
  double router_aux_loss_coef = 0.0;     // of the load-balancing loss
  double router_z_loss_coef = 0.0;       // of the squared log-sum-exp of the router's logits
  double router_bias_update_rate = 0.0;  // step of the load-balancing bias; 0: none
  double capacity_factor = 0.0;  // of an expert, in training: times the mean load; 0: no token is dropped

  // The context that the rotations were trained with, before they were scaled.
  int64_t original_context() const {
    if (rope_original_length > 0) return rope_original_length;
    return static_cast<int64_t>(static_cast<double>(max_position_embeddings) / rope_factor);
  }
  bool has_experts() const { return model_type == "moe" || model_type == "mixtral"; }
  bool is_encoder() const { return model_type == "bert"; }  // tokens see later ones
  bool has_rope() const { return model_type != "gpt2" && model_type != "bert"; }
  bool operator==(const ModelConfig&) const = default;
};

}  // namespace athanor::config
