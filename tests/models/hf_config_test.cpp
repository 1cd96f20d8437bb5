// config.json as people have it: whole files that must import, and single keys that must be honoured or refused by name.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/models/hf_family.h"
#include "athanor/models/hf_windows.h"
#include "models/published_configs.h"

namespace athanor::tests::hf_config_test {
namespace {

using Json = nlohmann::json;

ModelConfig read(const Json& json) {
  const HfConfig config(json.dump(), "config.json");
  return read_hf_config(hf_family_of(config), config);
}

std::string complaint(const Json& json) {
  try {
    read(json);
    return "";
  } catch (const Failure& error) {
    return error.what();
  }
}

// What a version 4 writes where it is told to leave nothing out.
const char* const kEverything = R"({
  "_name_or_path": "x", "add_cross_attention": false, "bad_words_ids": null, "begin_suppress_tokens": null,
  "chunk_size_feed_forward": 0, "cross_attention_hidden_size": null, "decoder_start_token_id": null,
  "diversity_penalty": 0.0, "do_sample": false, "early_stopping": false, "encoder_no_repeat_ngram_size": 0,
  "exponential_decay_length_penalty": null, "finetuning_task": null, "forced_bos_token_id": null,
  "forced_eos_token_id": null, "is_decoder": false, "is_encoder_decoder": false, "length_penalty": 1.0, "max_length": 20,
  "min_length": 0, "no_repeat_ngram_size": 0, "num_beam_groups": 1, "num_beams": 1, "num_return_sequences": 1,
  "output_attentions": false, "output_hidden_states": false, "output_scores": false, "prefix": null,
  "problem_type": null, "pruned_heads": {}, "remove_invalid_values": false, "repetition_penalty": 1.0,
  "return_dict": true, "return_dict_in_generate": false, "sep_token_id": null, "suppress_tokens": null,
  "temperature": 1.0, "tf_legacy_loss": false, "tie_encoder_decoder": false, "tokenizer_class": null, "top_k": 50,
  "top_p": 1.0, "torchscript": false, "typical_p": 1.0, "use_bfloat16": false, "_attn_implementation_autoset": true})";

TEST(HfConfig, PublishedFilesAreRead) {
  const ModelConfig llama3 = read(Json::parse(kLlama3));
  EXPECT_EQ(llama3.rope_theta, 5e5);
  EXPECT_EQ(llama3.num_key_value_heads, 8);
  EXPECT_EQ(llama3.max_position_embeddings, 8192);
  const ModelConfig llama1 = read(Json::parse(kLlama1));
  EXPECT_EQ(llama1.rope_theta, 1e4);
  EXPECT_EQ(llama1.num_key_value_heads, 32);
  EXPECT_EQ(llama1.max_position_embeddings, 2048);
  const ModelConfig newer = read(Json::parse(kNewLlama));
  EXPECT_EQ(newer.rope_theta, 1e5);
  EXPECT_EQ(newer.head_dim, 64);
  EXPECT_TRUE(newer.tie_word_embeddings);
  const ModelConfig mixtral = read(Json::parse(kMixtral));
  EXPECT_EQ(mixtral.rope_theta, 1e6);
  EXPECT_EQ(mixtral.num_experts, 8);
  const ModelConfig gpt2 = read(Json::parse(kGpt2));
  EXPECT_EQ(gpt2.intermediate_size, 3072);
  EXPECT_TRUE(gpt2.tie_word_embeddings);
  for (const char* family : {kLlama3, kMixtral, kGpt2}) {
    Json json = Json::parse(family);
    json.update(Json::parse(kEverything));
    EXPECT_EQ(read(json), read(Json::parse(family)));
  }
  EXPECT_EQ(read(Json::parse(std::string("\xEF\xBB\xBF") + kGpt2)), gpt2);
}

TEST(HfConfig, AMissingKeyHasTheFamilysOwnDefault) {
  Json mixtral = Json::parse(kMixtral);
  for (const char* key : {"rope_theta", "rms_norm_eps", "num_key_value_heads", "max_position_embeddings"})
    mixtral.erase(key);
  EXPECT_EQ(read(mixtral).rope_theta, 1e6);
  EXPECT_EQ(read(mixtral).rms_norm_eps, 1e-5);
  EXPECT_EQ(read(mixtral).num_key_value_heads, 8);
  EXPECT_EQ(read(mixtral).max_position_embeddings, 131072);
  mixtral["num_key_value_heads"] = nullptr;
  EXPECT_EQ(read(mixtral).num_key_value_heads, 32) << "null: as many as heads";
  Json llama = Json::parse(kLlama3);
  for (const char* key : {"rope_theta", "rms_norm_eps", "num_key_value_heads", "max_position_embeddings"})
    llama.erase(key);
  EXPECT_EQ(read(llama).rope_theta, 1e4);
  EXPECT_EQ(read(llama).rms_norm_eps, 1e-6);
  EXPECT_EQ(read(llama).num_key_value_heads, 32);
  EXPECT_EQ(read(llama).max_position_embeddings, 2048);
}

TEST(HfConfig, TheRotationIsReadInEverySpelling) {
  const Json full = {{"rope_type", "default"}, {"rope_theta", 500.0}};
  Json old = full;
  old.erase("rope_type");
  old["type"] = "default";
  struct Case {
    const char* name;
    Json keys;
    double base;
  };
  const std::vector<Case> cases = {
      {"top", {{"rope_theta", 500.0}}, 500.0},
      {"nothing", Json::object(), 1e4},
      {"integer", {{"rope_theta", 500}}, 500.0},
      {"rope_scaling", {{"rope_scaling", full}}, 500.0},
      {"older rope_scaling", {{"rope_scaling", old}}, 500.0},
      {"rope_parameters", {{"rope_parameters", full}}, 500.0},
      {"of a kind of layers", {{"rope_parameters", {{"full_attention", full}}}}, 500.0},
      {"of equal kinds",
       {{"rope_parameters", {{"full_attention", full}, {"sliding_attention", full}}}},
       500.0},
      {"everywhere", {{"rope_theta", 500.0}, {"rope_parameters", full}, {"rope_scaling", nullptr}}, 500.0},
      {"empty", {{"rope_theta", 500.0}, {"rope_parameters", Json::object()}}, 500.0},
      {"whole",
       {{"rope_theta", 500.0}, {"partial_rotary_factor", 1.0}, {"rotary_pct", 1}, {"rotary_dim", 128}},
       500.0},
      {"factor one",
       {{"rope_scaling", {{"type", "default"}, {"factor", 1.0}, {"rope_theta", 500.0}}}},
       500.0},
  };
  for (const Case& each : cases) {
    Json json = Json::parse(kLlama3);
    json.erase("rope_theta");
    json.update(each.keys);
    EXPECT_EQ(complaint(json), "") << each.name;
    if (complaint(json).empty()) {
      EXPECT_EQ(read(json).rope_theta, each.base) << each.name;
    }
  }
}

// Keys of Llama 3.1, gpt-oss and Qwen2.5 as they stand in their files.
TEST(HfConfig, ScaledRotationsAreRead) {
  const Json llama31 = {{"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192},
                        {"rope_type", "llama3"}};
  const Json gpt_oss = {{"beta_fast", 32.0},   {"beta_slow", 1.0},
                        {"factor", 32.0},      {"original_max_position_embeddings", 4096},
                        {"rope_type", "yarn"}, {"truncate", false}};
  const Json qwen = {{"factor", 4.0}, {"original_max_position_embeddings", 32768}, {"type", "yarn"}};
  const auto with = [](const char* place, const Json& scaling) {
    Json json = Json::parse(kLlama3);
    json[place] = scaling;
    return read(json);
  };
  ModelConfig expected = read(Json::parse(kLlama3));
  EXPECT_EQ(expected.rope_scaling, "none");
  expected.rope_scaling = "llama3", expected.rope_factor = 8.0, expected.rope_original_length = 8192;
  EXPECT_EQ(with("rope_scaling", llama31), expected);
  EXPECT_EQ(with("rope_parameters", llama31), expected);
  expected.rope_scaling = "yarn", expected.rope_factor = 4.0, expected.rope_original_length = 32768;
  EXPECT_EQ(with("rope_scaling", qwen), expected);
  expected.rope_factor = 32.0, expected.rope_original_length = 4096, expected.rope_truncate = false;
  EXPECT_EQ(with("rope_scaling", gpt_oss), expected);
  EXPECT_EQ(with("rope_parameters", {{"full_attention", gpt_oss}, {"sliding_attention", gpt_oss}}), expected);
  // Without a length it is the file's own context.
  EXPECT_EQ(with("rope_scaling", {{"type", "yarn"}, {"factor", 2.0}}).rope_original_length, 8192);
  EXPECT_EQ(with("rope_scaling", {{"type", "yarn"}, {"factor", 2.0}, {"attention_factor", 1.5}})
                .rope_attention_factor,
            1.5);
  const ModelConfig linear = with("rope_scaling", {{"type", "linear"}, {"factor", 2}});
  EXPECT_EQ(linear.rope_scaling, "linear");
  EXPECT_EQ(linear.rope_factor, 2.0);
  EXPECT_EQ(with("rope_scaling", {{"type", "linear"}, {"factor", 1.0}}), read(Json::parse(kLlama3)));
  // Two tables that differ.
  Json json = Json::parse(kLlama3);
  json["rope_scaling"] = qwen, json["rope_parameters"] = llama31;
  EXPECT_NE(complaint(json).find("rope_parameters.rope_type: got another scaling than rope_scaling"),
            std::string::npos)
      << complaint(json);
  json["rope_parameters"] = qwen;
  EXPECT_EQ(complaint(json), "");
}

TEST(HfConfig, WhatChangesTheFunctionIsRefusedByName) {
  struct Case {
    const char* base;
    const char* key;
    Json value;
  };
  const Json other = {{"rope_theta", 7.0}};
  const std::vector<Case> cases = {
      {kLlama3, "rope_scaling", {{"type", "linear"}}},
      {kLlama3, "rope_scaling", {{"type", "linear"}, {"factor", 0.5}}},
      {kLlama3, "rope_scaling", {{"type", "linear"}, {"rope_type", "yarn"}, {"factor", 2.0}}},
      {kLlama3, "rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}},
      {kLlama3, "rope_scaling", {{"type", "ntk"}, {"factor", 2.0}}},
      {kLlama3, "rope_scaling", {{"rope_type", "yarn"}, {"factor", 40.0}, {"mscale", 1.0}}},
      {kLlama3, "rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}, {"truncate", 1}}},
      {kLlama3, "rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}, {"attention_factor", 0.0}}},
      {kLlama3,
       "rope_scaling",
       {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 0}}},
      {kLlama3, "rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 1.0}}},
      {kLlama3, "rope_scaling", {{"rope_type", "longrope"}, {"short_factor", {1.0}}}},
      {kLlama3, "rope_scaling", {{"factor", 2.0}}},
      {kLlama3, "rope_scaling", {{"mrope_section", {16, 24, 24}}}},
      {kLlama3, "rope_parameters", {{"full_attention", {{"rope_type", "yarn"}}}}},
      {kLlama3, "rope_parameters", {{"full_attention", other}, {"sliding_attention", {{"rope_theta", 8.0}}}}},
      {kLlama3, "rope_parameters", {{"partial_rotary_factor", 0.25}}},
      {kLlama3, "rope_theta", 0},
      {kLlama3, "rope_theta", -1.0},
      {kLlama3, "partial_rotary_factor", 0.5},
      {kLlama3, "rotary_pct", 0.25},
      {kLlama3, "rotary_dim", 64},
      {kLlama3, "rope_interleaved", true},
      {kLlama3, "sliding_window", 4096},
      {kLlama3, "layer_types", {"full_attention", "sliding_attention"}},
      {kLlama3, "layer_types", {"full_attention"}},
      {kLlama3, "hidden_act", "gelu"},
      {kLlama3, "mlp_bias", true},
      {kLlama3, "attention_bias", true},
      {kLlama3, "qk_norm", true},
      {kLlama3, "use_qk_norm", true},
      {kLlama3, "clip_qkv", 8.0},
      {kLlama3, "alibi", true},
      {kLlama3, "attn_logit_softcapping", 50.0},
      {kLlama3, "final_logit_softcapping", 30.0},
      {kLlama3, "attention_multiplier", 0.0078125},
      {kLlama3, "residual_multiplier", 0.22},
      {kLlama3, "embedding_multiplier", 12.0},
      {kLlama3, "logits_scaling", 8.0},
      {kLlama3, "query_pre_attn_scalar", 256},
      {kLlama3, "no_rope_layers", {1, 1, 1, 0}},
      {kLlama3, "quantization_config", {{"quant_method", "awq"}}},
      {kLlama3, "compression_config", {{"format", "int-quantized"}}},
      {kLlama3, "auto_map", {{"AutoModelForCausalLM", "modeling_x.X"}}},
      {kLlama3, "num_local_experts", 8},
      {kLlama3, "num_experts", 4},
      {kLlama3, "pruned_heads", {{"0", {1}}}},
      {kLlama3, "is_encoder_decoder", true},
      {kLlama3, "architectures", {"LlamaForSequenceClassification"}},
      {kLlama3, "a_key_of_tomorrow", 1},
      {kMixtral, "sliding_window", 0},
      {kMixtral, "sliding_window", "wide"},
      {kMistral, "sliding_window", -1},
      {kMistral, "attention_bias", true},
      {kMixtral, "router_jitter_noise", 0.1},
      {kMixtral, "moe_layer_freq", 2},
      {kMixtral, "shared_expert_intermediate_size", 512},
      {kGpt2, "activation_function", "relu"},
      {kGpt2, "scale_attn_by_inverse_layer_idx", true},
      {kGpt2, "add_cross_attention", true},
      {kGpt2, "hidden_size", 1024},
      {kGpt2, "rope_theta", 1e4},
      {kGpt2, "multi_query", true},
  };
  for (const Case& each : cases) {
    Json json = Json::parse(each.base);
    if (each.key == std::string("rope_parameters")) json.erase("rope_theta");
    json[each.key] = each.value;
    const std::string said = complaint(json);
    EXPECT_NE(said.find(each.key), std::string::npos) << each.key << " = " << each.value << ": " << said;
    EXPECT_NE(said.find("config.json"), std::string::npos) << said;
  }
  Json two = Json::parse(kLlama3);
  two["rope_parameters"] = {{"rope_theta", 1e4}};
  EXPECT_NE(complaint(two).find("rope_parameters.rope_theta"), std::string::npos) << complaint(two);
}

TEST(HfConfig, SlidingWindowsArePatterns) {
  const auto pattern = [](const char* base, const Json& window) {
    Json json = Json::parse(base);
    if (window.is_string())
      json.erase("sliding_window");
    else
      json["sliding_window"] = window;
    return read(json).attention_pattern;
  };
  EXPECT_EQ(read(Json::parse(kMistral)).model_type, "llama");
  EXPECT_EQ(pattern(kMistral, 4096), "causal + window:4096");
  EXPECT_EQ(pattern(kMistral, nullptr), "causal");
  EXPECT_EQ(pattern(kMistral, "without"), "causal + window:4096");
  EXPECT_EQ(pattern(kMistral, 32768), "causal") << "as wide as the context";
  EXPECT_EQ(pattern(kMixtral, 100), "causal + window:100");
  EXPECT_EQ(pattern(kMixtral, "without"), "causal");
  const auto window = [](const char* of) {
    ModelConfig model;
    model.attention_pattern = of;
    return window_of(model);
  };
  EXPECT_EQ(window("causal"), std::nullopt);
  EXPECT_EQ(window("causal + window:9"), 9);
  EXPECT_EQ(window("window:5"), 5);
  for (const char* other :
       {"causal + band:9", "layers 0: causal; window:5", "causal + window:9 + global:1", "causal + chunk:8"})
    EXPECT_THROW(window(other), Error) << other;
}

TEST(HfConfig, WhatSaysNothingIsTaken) {
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, Json>>{{"sliding_window", 8192},
                                                 {"sliding_window", nullptr},
                                                 {"max_window_layers", 28},
                                                 {"layer_types", Json::array()},
                                                 {"attention_dropout", 0.1},
                                                 {"logits_scaling", 1.0},
                                                 {"qk_norm", false},
                                                 {"clip_qkv", nullptr},
                                                 {"auto_map", nullptr},
                                                 {"quantization_config", nullptr}}) {
    Json json = Json::parse(kLlama3);
    json[key] = value;
    EXPECT_EQ(complaint(json), "") << key;
  }
  Json qwen_like = Json::parse(kLlama3);
  qwen_like["use_sliding_window"] = false;
  qwen_like["sliding_window"] = 4096;
  EXPECT_EQ(complaint(qwen_like), "");
  qwen_like["layer_types"] = std::vector<std::string>(32, "full_attention");
  EXPECT_EQ(complaint(qwen_like), "");
}

}  // namespace
}  // namespace athanor::tests::hf_config_test
