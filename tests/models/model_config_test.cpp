// model.config: a run's model in the sizes of a Hugging Face config.json, and what may stand beside it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "athanor/base/file.h"
#include "athanor/config/load.h"
#include "athanor/config/presets.h"
#include "athanor/config/print.h"
#include "athanor/models/hf.h"
#include "athanor/models/hf_family.h"
#include "models/published_configs.h"
#include "support/temporary_folder.h"

namespace athanor::tests::model_config_test {
namespace {

using Json = nlohmann::json;

class ModelConfigFile : public ::testing::Test {
 protected:
  // run.toml with a config.json beside it, as load_config() reads them.
  Config load(std::string_view json, const std::vector<std::string>& sets = {},
              const std::string& text = "[model]\nconfig = 'config.json'\n") const {
    write("config.json", json);
    write("run.toml", text);
    return load_config(env_, folder_.path("run.toml"), sets, sources_);
  }
  // The message with its hint behind " | "; the folder's name is left out.
  std::string complaint(std::string_view json, const std::vector<std::string>& sets = {},
                        const std::string& text = "[model]\nconfig = 'config.json'\n") const {
    try {
      load(json, sets, text);
    } catch (const ConfigError& error) {
      std::string said = std::string(error.what()) + " | " + error.hint();
      for (size_t at; (at = said.find(folder_.path(""))) != std::string::npos;)
        said.erase(at, folder_.path("").size());
      return said;
    }
    return "";
  }
  void expect_refused(std::string_view json, const std::vector<std::string>& sets,
                      const std::string& part) const {
    const std::string said = complaint(json, sets);
    EXPECT_NE(said.find(part), std::string::npos) << "said: " << said << "\nlacks: " << part;
  }
  void write(const std::string& name, std::string_view text) const {
    env_.write_atomically(folder_.path(name), text);
  }
  Env& env_ = system_env();
  const TemporaryFolder folder_;
  const ConfigSources sources_ = {.model_config = [this](const std::string& path) {
    const Config read = load_hf_config(env_, path);
    return InitSource{.model = read.model, .what = read.origins.at("model.model_type").text};
  }};
};

TEST_F(ModelConfigFile, AModelOfEachFamilyHasTheSizesOfItsFile) {
  for (const char* json : {kLlama3, kLlama1, kNewLlama, kMixtral, kGpt2}) {
    const HfConfig hf(json, "config.json");
    const ModelConfig expected = read_hf_config(hf_family_of(hf), hf);
    const Config config = load(json);
    EXPECT_EQ(config.model, expected);
    EXPECT_EQ(config.origins.at("model.hidden_size").text, folder_.path("config.json"));
    // The folder of the file; from the command line; what the file says, said again.
    EXPECT_EQ(load(json, {}, "[model]\nconfig = '.'\n").model, expected);
    EXPECT_EQ(load(json, {"model.config=config.json"}, "").model, expected);
    EXPECT_EQ(load(json, {"model.config=config.json"}, print_config(config)).model, expected);
    Config again = config;
    resolve_model(again, 300);  // once the tokenizer is known
    EXPECT_EQ(again.model, expected);
    // The resolved settings stand alone.
    env_.remove_all(folder_.path("config.json"));
    EXPECT_EQ(parse_config(print_config(config), "resolved.toml").model, expected);
  }
}

TEST_F(ModelConfigFile, WhatContradictsTheFileIsRefusedByName) {
  struct Case {
    const char *json, *set, *said;
  };
  for (const auto& [json, set, said] : std::vector<Case>{
           {kLlama3, "model.num_hidden_layers=2",
            "model.num_hidden_layers: got 2, expected 32 as in config.json"},
           {kLlama3, "model.hidden_size=64", "model.hidden_size: got 64, expected 4096"},
           {kLlama3, "model.num_key_value_heads=4", "model.num_key_value_heads: got 4, expected 8"},
           {kLlama3, "model.vocab_size=320", "model.vocab_size: got 320, expected 128256"},
           {kLlama3, "model.rope_theta=1e4", "model.rope_theta: got 10000.0, expected 500000.0"},
           {kLlama3, "model.max_position_embeddings=512",
            "model.max_position_embeddings: got 512, expected 8192"},
           {kLlama3, "model.tie_word_embeddings=true", "model.tie_word_embeddings: got true, expected false"},
           {kLlama3, "model.model_type=gpt2", "model.model_type: got \"gpt2\", expected \"llama\""},
           {kLlama3, "model.num_experts=4", "model.num_experts: got 4, expected 0"},
           {kLlama1, "model.rms_norm_eps=1e-5", "model.rms_norm_eps: got 1e-05, expected 1e-06"},
           {kNewLlama, "model.head_dim=32", "model.head_dim: got 32, expected 64"},
           {kMixtral, "model.model_type=moe", "model.model_type: got \"moe\", expected \"mixtral\""},
           {kMixtral, "model.num_experts=4", "model.num_experts: got 4, expected 8"},
           {kMixtral, "model.num_experts_per_tok=1", "model.num_experts_per_tok: got 1, expected 2"},
           {kMixtral, "model.router_aux_loss_coef=0.5", "model.router_aux_loss_coef: got 0.5, expected 0.02"},
           {kMixtral, "model.scoring_func=sigmoid",
            "model.scoring_func: got \"sigmoid\", expected \"softmax\""},
           {kGpt2, "model.dropout=0.5", "model.dropout: got 0.5, expected 0.1"},
           {kGpt2, "model.bias=false", "model.bias: got false, expected true"},
           {kGpt2, "model.intermediate_size=1024", "model.intermediate_size: got 1024, expected 3072"},
           {kGpt2, "model.preset=gpt2-124m",
            "model.preset: got 'gpt2-124m', expected none beside model.config"},
       })
    expect_refused(json, {set}, std::string("--set ") + set + ": " + said);
  EXPECT_EQ(complaint(kGpt2, {}, "[model]\nhidden_size = 64\nconfig = 'config.json'\n"),
            "run.toml:2: model.hidden_size: got 64, expected 768 as in config.json | leave model.hidden_size "
            "out, or change the file");
}

TEST_F(ModelConfigFile, WhatNoFileHasMayStandBesideIt) {
  EXPECT_EQ(load(kLlama3, {"model.dropout=0.1"}).model.dropout, 0.1);
  const Config mixtral = load(kMixtral, {"model.router_z_loss_coef=0.001", "model.capacity_factor=1.5"});
  EXPECT_EQ(mixtral.model.router_z_loss_coef, 0.001);
  EXPECT_EQ(mixtral.model.capacity_factor, 1.5);
  EXPECT_EQ(load(kGpt2, {"model.hidden_size=768", "model.num_attention_heads=0"}).model.num_attention_heads,
            12);
}

TEST_F(ModelConfigFile, AFileThatIsNoneIsRefusedWithTheLineThatNamesIt) {
  const auto with = [](const char* key, const Json& value) {
    Json json = Json::parse(kLlama3);
    json[key] = value;
    return json.dump();
  };
  const std::string where = "run.toml:2: model.config: ";
  struct Case {
    std::string json, said;
  };
  for (
      const auto& [json, said] : std::vector<Case>{
          {"{", "'config.json': "},
          {"", "'config.json': "},
          {"[]", "'config.json': got array, expected an object"},
          {with("model_type", "qwen2"),
           "'config.json': model_type: got 'qwen2', expected bert, gpt2, llama, mistral, mixtral or roberta"},
          {with("model_type", nullptr), "'config.json': model_type: got ''"},
          {with("hidden_size", nullptr), "'config.json': hidden_size: is missing"},
          {with("hidden_size", "wide"), "'config.json': hidden_size: got \"wide\""},
          {with("hidden_act", "relu"), "'config.json': hidden_act: got 'relu', expected silu"},
          {with("rope_scaling", {{"rope_type", "longrope"}, {"factor", 4.0}}), "'config.json': rope_scaling"},
          {with("a_key_of_tomorrow", 1), "'config.json': a_key_of_tomorrow: got 1"},
          {with("num_hidden_layers", 1000000), "config.json: model.num_hidden_layers: got 1000000"},
          {with("num_key_value_heads", 3),
           "config.json: model.num_key_value_heads: got 3, expected a divisor"},
      })
    expect_refused(json, {}, where + said);
  expect_refused(kLlama3, {"model.config=other.json"},
                 "--set model.config=other.json: model.config: cannot read 'other.json'");
  env_.create_folders(folder_.path("empty"));
  expect_refused(kLlama3, {"model.config=empty"}, "cannot read 'empty/config.json'");
}

TEST_F(ModelConfigFile, ATokenizerOfMoreTokensIsRefusedAndTheFileNamed) {
  Config config = load(kLlama1);
  try {
    resolve_model(config, 32001);
    ADD_FAILURE() << "taken";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("config.json: model.vocab_size: got 32000, expected at least"),
              std::string::npos)
        << error.what();
    EXPECT_NE(error.hint().find("in the file"), std::string::npos) << error.hint();
  }
}

// Weights that a run starts from say the model too: then both must agree.
TEST_F(ModelConfigFile, WeightsOfAnotherShapeAreRefused) {
  write("config.json", kGpt2);
  ConfigSources both = sources_;
  InitSource weights = {.model = load_hf_config(env_, folder_.path("config.json")).model,
                        .what = "init_from base"};
  both.init_from = [&](const Config&) { return weights; };
  write("run.toml", "[model]\nconfig = 'config.json'\n[train]\ninit_from = 'base'\n");
  EXPECT_EQ(load_config(env_, folder_.path("run.toml"), {}, both).model, weights.model);
  weights.model.num_hidden_layers = 6;
  try {
    load_config(env_, folder_.path("run.toml"), {}, both);
    ADD_FAILURE() << "taken";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("config.json: model.num_hidden_layers: got 12, expected 6 as in init_from"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace athanor::tests::model_config_test
