#include "athanor/config/presets.h"

#include "athanor/config/validate.h"
#include "config/config_testing.h"

namespace athanor::tests::presets_test {
namespace {

TEST(Presets, CountsAreThePublishedOnes) {
  const std::vector<std::pair<std::string, int64_t>> published = {
      {"gpt2-124m", 124439808},          {"gpt2-350m", 354823168},
      {"gpt2-774m", 774030080},          {"gpt2-1.5b", 1557611200},
      {"tinyllama-1.1b", 1100048384},    {"llama-1b", 1235814400},
      {"llama-2-7b", 6738415616},        {"llama-2-13b", 13015864320},
      {"llama-2-70b", 68976648192},      {"llama-3-8b", 8030261248},
      {"llama-3-70b", 70553706496},      {"mixtral-8x7b", 46702792704},
      {"deepseek-moe-16b", 16375728128}, {"llama-3.2-1b", 1235814400},
      {"llama-3.2-3b", 3212749824},      {"llama-3.1-8b", 8030261248},
      {"llama-3.1-70b", 70553706496},    {"llama-3.1-405b", 405853388800},
      {"mistral-7b-v0.1", 7241732096},   {"mistral-7b-v0.3", 7248023552},
      {"mixtral-8x22b", 140620634112},   {"mixtral-8x22b-v0.3", 140630071296},
      {"smollm2-135m", 134515008},       {"smollm2-360m", 361821120},
      {"bert-base-uncased", 109514298},  {"bert-base-cased", 108340804},
      {"bert-large-uncased", 335174458}, {"roberta-base", 124697433},
      {"roberta-large", 355412057},      {"bigbird-roberta-base", 127520694},
  };
  for (const auto& [name, count] : published) EXPECT_EQ(num_params(preset_model(name)), count) << name;
  // Encoders are published with a pooler in place of the head.
  const std::vector<std::pair<std::string, int64_t>> with_pooler = {
      {"bert-tiny", 4385920},
      {"bert-mini", 11170560},
      {"bert-small", 28763648},
      {"bert-medium", 41373184},
      {"bert-base-uncased", 109482240},
      {"bert-base-cased", 108310272},
      {"bert-base-chinese", 102267648},
      {"bert-base-multilingual-cased", 177853440},
      {"bert-large-uncased", 335141888},
      {"roberta-base", 124645632},
      {"roberta-large", 355359744},
      {"bigbird-roberta-base", 127468800},
      {"bigbird-roberta-large", 359123968},
  };
  for (const auto& [name, count] : with_pooler) {
    const ModelConfig model = preset_model(name);
    EXPECT_EQ(num_params(model) - 2 * model.hidden_size - model.vocab_size, count) << name;
  }
  EXPECT_NEAR(static_cast<double>(num_params(preset_model("llama-tiny"))), 10e6, 0.5e6);
}

TEST(Presets, EachIsCompleteAndValid) {
  for (const auto& name : preset_names()) {
    Config config;
    config.data.seq_len = 128;
    config.model.preset = name;
    resolve_model(config, 0);
    EXPECT_NO_THROW(validate(config)) << name;
    const ModelConfig model = preset_model(name);
    for (const int64_t size :
         {model.num_hidden_layers, model.hidden_size, model.num_attention_heads, model.num_key_value_heads,
          model.head_dim, model.intermediate_size, model.vocab_size, model.max_position_embeddings})
      EXPECT_GT(size, 0) << name;
    EXPECT_EQ(model.preset, name);
  }
}

TEST(Presets, UnknownOnesAreNamedWithTheNearest) {
  expect_error("[model]\npreset = 'lama-tiny'",
               {"first.toml:2: model.preset: got 'lama-tiny'", "did you mean 'llama-tiny'?", "gpt2-124m"});
  EXPECT_THROW(preset_model("gpt2_124m"), ConfigError);
  expect_error("[model]\npreset = 'llama-tiny'\nmodel_type = 'gpt2'",
               {"first.toml:3: model.model_type", "'llama'"});
}

TEST(Presets, TheUsersValuesWinAndDerivedOnesFollow) {
  const Config config = parse(
      "[model]\npreset = 'gpt2-124m'\nhidden_size = 96\nnum_attention_heads = 6\ntie_word_embeddings = "
      "false\n");
  EXPECT_EQ(config.model.num_hidden_layers, 12);
  EXPECT_EQ(config.model.hidden_size, 96);
  EXPECT_EQ(config.model.num_key_value_heads, 6);
  EXPECT_EQ(config.model.head_dim, 16);
  EXPECT_EQ(config.model.intermediate_size, 384);
  EXPECT_FALSE(config.model.tie_word_embeddings);
  EXPECT_TRUE(config.model.bias);
  EXPECT_EQ(config.model.vocab_size, 50257);
  EXPECT_EQ(config.model.max_position_embeddings, 1024);
}

TEST(Presets, FamilyDefaults) {
  const Config llama = parse("[data]\nseq_len = 300");
  EXPECT_FALSE(llama.model.tie_word_embeddings);
  EXPECT_EQ(llama.model.max_position_embeddings, 300);
  EXPECT_EQ(llama.model.intermediate_size, 704);  // 8/3 * 256 = 682.7
  const Config gpt2 = parse("[model]\nmodel_type = 'gpt2'\nbias = false");
  EXPECT_TRUE(gpt2.model.tie_word_embeddings);
  EXPECT_FALSE(gpt2.model.bias);
  EXPECT_EQ(gpt2.model.intermediate_size, 4 * gpt2.model.hidden_size);
}

TEST(Presets, VocabularyFollowsTheTokenizer) {
  Config config = parse("[model]\npreset = 'llama-tiny'");
  EXPECT_EQ(config.model.vocab_size, 0);
  resolve_model(config, 65);
  EXPECT_EQ(config.model.vocab_size, 128);
  EXPECT_EQ(config.model.num_hidden_layers, 8);
  EXPECT_EQ(config.origins.at("model.vocab_size").text,
            "derived: the tokenizer's 65, up to a multiple of 64");
  resolve_model(config, 65);  // once more changes nothing
  EXPECT_EQ(config.model.vocab_size, 128);

  Config fixed = parse("[model]\nvocab_size = 100");
  resolve_model(fixed, 100);
  EXPECT_EQ(fixed.model.vocab_size, 100);
  EXPECT_THROW(resolve_model(fixed, 101), ConfigError);
  Config preset = parse("[model]\npreset = 'llama-125m'");
  EXPECT_THROW(resolve_model(preset, 32001), ConfigError);
}

// Published shapes checked by hand: one block with every bias, in both families.
TEST(Presets, ParameterCountWithAndWithoutBias) {
  ModelConfig m = complete_model({.model_type = "llama",
                                  .num_hidden_layers = 1,
                                  .hidden_size = 8,
                                  .num_attention_heads = 2,
                                  .num_key_value_heads = 1,
                                  .intermediate_size = 16,
                                  .vocab_size = 10,
                                  .max_position_embeddings = 4},
                                 0, 4);
  EXPECT_EQ(num_params(m), 2 * 80 + (64 + 2 * 32 + 64) + 3 * 128 + 2 * 8 + 8);
  m.bias = true;
  EXPECT_EQ(num_params(m), 2 * 80 + (64 + 2 * 32 + 64 + 8 + 4 + 4 + 8) + 3 * 128 + 16 + 16 + 8 + 2 * 8 + 8);
  m.model_type = "gpt2", m.num_key_value_heads = 2, m.tie_word_embeddings = true;
  EXPECT_EQ(num_params(m), 80 + 32 + (256 + 32) + 2 * 128 + 16 + 8 + 2 * 16 + 16);
  m.bias = false;
  EXPECT_EQ(num_params(m), 80 + 32 + 256 + 2 * 128 + 2 * 8 + 8);
}

}  // namespace
}  // namespace athanor::tests::presets_test
