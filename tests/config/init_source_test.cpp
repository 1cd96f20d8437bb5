#include "athanor/config/init_source.h"

#include "athanor/base/check.h"
#include "athanor/config/presets.h"
#include "athanor/config/print.h"
#include "config/config_testing.h"

namespace athanor::tests::init_source_test {
namespace {

InitSource source_of(const std::vector<std::string>& sets) {
  Config config = parse("", sets);
  resolve_model(config, 300);
  return {.model = config.model, .what = "init_from base", .tokenizer = "/base/tokenizer.json"};
}

const std::vector<std::string> kLlama = {"model.num_hidden_layers=3",
                                         "model.hidden_size=48",
                                         "model.num_attention_heads=4",
                                         "model.num_key_value_heads=2",
                                         "model.head_dim=8",
                                         "model.intermediate_size=96",
                                         "model.rope_theta=5e5",
                                         "model.rms_norm_eps=1e-6",
                                         "model.max_position_embeddings=512",
                                         "model.bias=true",
                                         "model.initializer_range=0.05",
                                         "model.tie_word_embeddings=true"};

Config read_with(const InitSource& source, const std::vector<std::string>& overrides,
                 const std::string& text = "[train]\ninit_from = 'base'") {
  return parse_config(text, "t.toml", "", overrides, {.init_from = [&](const Config&) { return source; }});
}

void expect_refused_with(const InitSource& source, const std::vector<std::string>& overrides,
                         const std::string& part, const std::string& text = "[train]\ninit_from = 'base'") {
  try {
    read_with(source, overrides, text);
    ADD_FAILURE() << "took " << overrides.back();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what() << "\nlacks: " << part;
    EXPECT_NE(error.hint().find("architecture"), std::string::npos);
  }
}

TEST(InitSource, TheArchitectureAndTheTokenizerAreTheirs) {
  for (const auto& sets : {kLlama,
                           std::vector<std::string>{"model.model_type=gpt2", "model.bias=true"},
                           {"model.preset=moe-tiny"},
                           {"model.preset=deepseek-moe-16b", "model.num_hidden_layers=2"}}) {
    InitSource source = source_of(sets);
    source.model.preset.clear();
    const Config config = read_with(source, {});
    EXPECT_EQ(config.model, source.model);
    EXPECT_EQ(config.data.tokenizer, "/base/tokenizer.json");
    EXPECT_EQ(config.origins.at("model.num_hidden_layers").text, "init_from base");
    EXPECT_EQ(config.origins.at("data.tokenizer").text, "init_from base");
    Config again = config;
    resolve_model(again, 300);  // once the tokenizer is known
    EXPECT_EQ(again.model, source.model);
    EXPECT_NE(print_config(config).find("init_from base"), std::string::npos);
  }
}

TEST(InitSource, WhatContradictsIsRefusedKeyByKey) {
  const InitSource source = source_of(kLlama);
  const std::vector<std::pair<std::string, std::string>> table = {
      {"model.num_hidden_layers=2", "model.num_hidden_layers: got 2, expected 3 as in init_from base"},
      {"model.hidden_size=64", "model.hidden_size: got 64, expected 48"},
      {"model.num_attention_heads=2", "model.num_attention_heads: got 2, expected 4"},
      {"model.num_key_value_heads=1", "model.num_key_value_heads: got 1, expected 2"},
      {"model.head_dim=16", "model.head_dim: got 16, expected 8"},
      {"model.intermediate_size=64", "model.intermediate_size: got 64, expected 96"},
      {"model.rope_theta=1e4", "model.rope_theta: got 10000.0, expected 500000.0"},
      {"model.rms_norm_eps=10", "model.rms_norm_eps: got 10.0, expected 1e-06"},
      {"model.bias=false", "model.bias: got false, expected true"},
      {"model.tie_word_embeddings=false", "model.tie_word_embeddings: got false, expected true"},
      {"model.vocab_size=1024", "model.vocab_size: got 1024, expected 320"},
      {"model.initializer_range=0.1", "model.initializer_range: got 0.1, expected 0.05"},
      {"model.model_type=gpt2", "model.model_type: got \"gpt2\", expected \"llama\""},
  };
  for (const auto& [set, part] : table)
    expect_refused_with(source, {set}, fmt::format("--set {}: {}", set, part));
  expect_refused_with(source, {}, "t.toml:4: model.num_attention_heads: got 8",
                      "[train]\ninit_from = 'base'\n[model]\nnum_attention_heads = 8");
  const InitSource moe = source_of({"model.preset=moe-tiny"});
  expect_refused_with(moe, {"model.scoring_func=sigmoid"},
                      "model.scoring_func: got \"sigmoid\", expected \"softmax\"");
  expect_refused_with(moe, {"model.num_experts_per_tok=1"}, "model.num_experts_per_tok: got 1, expected 2");
}

TEST(InitSource, APresetMustBeTheirs) {
  const InitSource tiny = source_of({"model.preset=llama-tiny"});
  EXPECT_EQ(read_with(tiny, {"model.preset=llama-tiny"}).model.num_hidden_layers, 8);
  expect_refused_with(
      tiny, {"model.preset=gpt2-tiny"},
      "model.preset: got 'gpt2-tiny', whose model.model_type is \"gpt2\", expected \"llama\"");
  expect_refused_with(source_of(kLlama), {"model.preset=llama-tiny"},
                      "whose model.num_hidden_layers is 8, expected 3");
  // What a preset leaves open, such as as many key as query heads, is part of what it says.
  expect_refused_with(source_of({"model.preset=llama-125m", "model.num_key_value_heads=4"}),
                      {"model.preset=llama-125m"}, "whose model.num_key_value_heads is 12, expected 4");
  EXPECT_EQ(read_with(source_of({"model.preset=llama-125m", "model.num_key_value_heads=4"}),
                      {"model.preset=llama-125m", "model.num_key_value_heads=4"})
                .model.num_key_value_heads,
            4);
}

TEST(InitSource, WhatTheWeightsDoNotSettleMayDiffer) {
  const InitSource llama = source_of(kLlama);
  EXPECT_EQ(read_with(llama, {"model.dropout=0.1"}).model.dropout, 0.1);
  EXPECT_EQ(read_with(llama, {"model.max_position_embeddings=4096"}).model.max_position_embeddings, 4096);
  EXPECT_EQ(read_with(llama, {"model.num_attention_heads=4", "model.hidden_size=48"}).model.hidden_size,
            48);  // the same may be said
  expect_refused_with(source_of({"model.model_type=gpt2", "model.max_position_embeddings=512"}),
                      {"model.max_position_embeddings=1024"},
                      "model.max_position_embeddings: got 1024, expected 512");
  const InitSource moe = source_of({"model.preset=moe-tiny"});
  EXPECT_EQ(read_with(moe, {"model.capacity_factor=1.5"}).model.capacity_factor, 1.5);
  EXPECT_EQ(read_with(moe, {"model.router_aux_loss_coef=0.5"}).model.router_aux_loss_coef, 0.5);
}

TEST(InitSource, ATokenizerThatCannotBeComparedIsWarnedOf) {
  InitSource source = source_of(kLlama);
  source.tokenizer.clear();
  EXPECT_TRUE(read_with(source, {}).warnings.empty());
  const Config config = read_with(source, {"data.tokenizer=mine.json"});
  ASSERT_EQ(config.warnings.size(), 1);
  EXPECT_NE(config.warnings[0].find("init_from base has no tokenizer"), std::string::npos);
  EXPECT_EQ(config.data.tokenizer, "mine.json");
}

}  // namespace
}  // namespace athanor::tests::init_source_test
