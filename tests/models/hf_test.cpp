// Hugging Face folders in and out: names, shapes, every bit, and what is refused.
#include "athanor/models/hf.h"

#include <gtest/gtest.h>

#include <cmath>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/config/load.h"
#include "athanor/config/presets.h"
#include "athanor/config/print.h"
#include "checkpoint/content.h"
#include "models/golden.h"
#include "support/fault_env.h"

namespace athanor::tests::hf_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class HuggingFace : public ::testing::Test {
 protected:
  // A checkpoint of a model with random weights.
  std::string make_checkpoint(const ModelConfig& model_config, const std::string& name,
                              bool tokenizer = true) {
    Config config;
    config.model = model_config;
    config.data.seq_len = 8;
    const auto model = make_model(model_config);
    CheckpointContent content{.step = 5, .state = R"({"step":5})", .tensors = {}, .files = {}};
    for (const auto& param : model->params()) {
      content.tensors.push_back(
          {"model." + param->name(), engine.random(param->shape(), name + param->name())});
      content.tensors.push_back(
          {"adam.m." + param->name(), engine.random(param->shape(), "m" + param->name())});
    }
    content.files.push_back({"config.resolved.toml", print_config(config)});
    if (tokenizer)
      content.files.push_back(
          {"tokenizer.json",
           R"({"version":"1.0","added_tokens":[{"id":3,"content":"<|endoftext|>"},{"id":7,"content":"<s>","special":true}],
              "model":{"type":"WordLevel","unk_token":"a","vocab":{"a":0}}})"});
    const auto group = make_single_group();
    return write_checkpoint(env, *group, folder.file(name + "/checkpoints"), content);
  }
  nlohmann::json read_json(const std::string& path) {
    return nlohmann::json::parse(system_env().read_text(path));
  }
  static ModelConfig tiny(const std::string& family) {
    ModelConfig model;
    model.model_type = family;
    model.num_hidden_layers = 2, model.hidden_size = 12, model.num_attention_heads = 3,
    model.max_position_embeddings = 8;
    if (family != "gpt2") model.num_key_value_heads = 1, model.head_dim = 6;
    if (model.has_experts())
      model.num_experts = 3, model.intermediate_size = model.moe_intermediate_size = 10,
      model.router_aux_loss_coef = 0.25;
    model.bias = family == "gpt2";
    model.tie_word_embeddings = family == "gpt2";
    return complete_model(model, 20, 8);
  }
  std::string complaint(const std::function<void()>& action) {
    try {
      action();
      return "";
    } catch (const Failure& error) {
      return error.what();
    }
  }
  // The golden folder of a model with a changed config.json.
  std::string changed(const std::string& model, const std::function<void(nlohmann::json&)>& change) {
    std::string path = folder.file(model + "-changed");
    fs::remove_all(path);
    fs::create_directories(path);
    fs::copy_file(golden_folder(model) + "/model.safetensors", path + "/model.safetensors");
    auto json = read_json(golden_folder(model) + "/config.json");
    change(json);
    std::ofstream(path + "/config.json") << json;
    return path;
  }

  const TestFolder folder;
  Engine engine;
  FaultEnv env;  // syncs nothing
};

TEST_F(HuggingFace, WhatWasImportedIsExportedBitForBit) {
  for (const std::string model : kGoldenModels) {
    const std::string original = golden_folder(model);
    const std::string checkpoint = folder.file(model), exported = folder.file(model + "-hf");
    import_hf(env, original, checkpoint, engine.arena, false);
    export_hf(env, checkpoint, exported, {});
    const SafetensorsFile before(env, original + "/model.safetensors"),
        after(env, exported + "/model.safetensors");
    ASSERT_EQ(before.tensors().size(), after.tensors().size()) << model;
    for (const StoredTensor& tensor : before.tensors()) {
      const StoredTensor& other = after.at(tensor.name);
      EXPECT_EQ(other.shape, tensor.shape) << tensor.name;
      std::string a(tensor.size_bytes(), '\0'), b(other.size_bytes(), '\0');
      before.read(tensor, 0, a.data(), a.size());
      after.read(other, 0, b.data(), b.size());
      EXPECT_EQ(a, b) << model << " " << tensor.name;
    }
    const auto config = read_json(exported + "/config.json"), expected = read_json(original + "/config.json");
    for (const auto& [key, value] : expected.items())
      if (key != "bos_token_id" && key != "eos_token_id") {
        EXPECT_EQ(config[key], value) << model << " " << key;
      }
    const Checkpoint first = Checkpoint::open(env, checkpoint);
    EXPECT_EQ(first.step(), 0);
    import_hf(env, exported, folder.file(model + "-again"), engine.arena, false);
    EXPECT_EQ(Checkpoint::open(env, folder.file(model + "-again")).digest(), first.digest()) << model;
  }
}

TEST_F(HuggingFace, WhatAMixtralCannotSayIsRefused) {
  const auto refused = [&](const char* key, const std::function<void(ModelConfig&)>& change) {
    ModelConfig model = tiny("moe");
    change(model);
    make_checkpoint(model, key);
    EXPECT_NE(complaint([&] { export_hf(env, folder.file(key), folder.file("hf"), {}); }).find(key),
              std::string::npos)
        << key;
    EXPECT_FALSE(fs::exists(folder.file("hf")));
  };
  refused("router_bias_update_rate", [](ModelConfig& m) { m.router_bias_update_rate = 0.1; });
  refused("model.scoring_func: got sigmoid", [](ModelConfig& m) { m.scoring_func = "sigmoid"; });
  refused("norm_topk_prob", [](ModelConfig& m) { m.norm_topk_prob = false; });
  refused("n_shared_experts", [](ModelConfig& m) { m.n_shared_experts = 1; });
  refused("first_k_dense_replace", [](ModelConfig& m) { m.first_k_dense_replace = 1; });
}

TEST_F(HuggingFace, EveryModelComesBackFromAnExport) {
  std::vector<ModelConfig> models = {tiny("llama"), tiny("gpt2"), tiny("mixtral")};
  models.push_back(tiny("llama"));
  models.back().bias = true, models.back().tie_word_embeddings = true, models.back().rope_theta = 123456.0;
  models.push_back(tiny("gpt2"));
  models.back().bias = false, models.back().tie_word_embeddings = false, models.back().intermediate_size = 20;
  models.back().dropout = 0.25, models.back().rms_norm_eps = 1e-6, models.back().initializer_range = 0.01;
  for (const char* method : {"linear", "llama3", "yarn"}) {
    models.push_back(tiny(method == std::string("llama3") ? "mixtral" : "llama"));
    models.back().rope_scaling = method, models.back().rope_factor = 4.0;
    if (method != std::string("linear")) models.back().rope_original_length = 16;
  }
  models.back().rope_truncate = false, models.back().rope_beta_fast = 3.0;
  models.push_back(models.back());
  models.back().rope_attention_factor = 1.25;
  for (const char* family : {"llama", "mixtral"}) {
    models.push_back(tiny(family));
    models.back().attention_pattern = "causal + window:7";
  }
  int number = 0;
  for (const ModelConfig& config : models) {
    const std::string name = std::to_string(number++);
    const std::string path = make_checkpoint(config, name), exported = folder.file("hf" + name);
    export_hf(env, folder.file(name), exported, {.max_shard_bytes = 2000});
    EXPECT_FALSE(fs::exists(exported + "/model.safetensors"));
    const auto index = read_json(exported + "/model.safetensors.index.json");
    EXPECT_GT(index["weight_map"].size(), 10u);
    EXPECT_EQ(index["metadata"]["total_size"].get<int64_t>(), 4 * num_params(config));
    const HfWeights back(env, exported);
    ModelConfig found = back.config().model;
    EXPECT_EQ(found, config) << name;
    const Checkpoint checkpoint = Checkpoint::open(env, path);
    for (const std::string& param : back.names()) {
      std::vector<float> a(static_cast<size_t>(back.shape(param).numel())), b(a.size());
      back.read(param, a.data());
      checkpoint.read("model." + param, back.shape(param), b.data());
      EXPECT_EQ(a, b) << param;
    }
    const auto json = read_json(exported + "/config.json");
    EXPECT_EQ(json["eos_token_id"], 3);
    EXPECT_EQ(json["bos_token_id"], 7);
    EXPECT_EQ(json["dtype"], "float32");
    EXPECT_EQ(json["torch_dtype"], "float32");
    EXPECT_EQ(read_json(exported + "/generation_config.json")["eos_token_id"], 3);
    EXPECT_EQ(read_json(exported + "/tokenizer_config.json")["eos_token"], "<|endoftext|>");
    EXPECT_EQ(system_env().read_text(exported + "/tokenizer.json"), checkpoint.file_text("tokenizer.json"));
  }
}

// Hugging Face has no word for it, and needs none.
TEST_F(HuggingFace, NtkIsExportedAsALargerBase) {
  ModelConfig config = tiny("llama");
  config.rope_scaling = "ntk", config.rope_factor = 4.0, config.head_dim = 8;
  make_checkpoint(config, "run");
  export_hf(env, folder.file("run"), folder.file("hf"), {});
  const ModelConfig back = HfWeights(env, folder.file("hf")).config().model;
  EXPECT_EQ(back.rope_scaling, "none");
  EXPECT_DOUBLE_EQ(back.rope_theta, 1e4 * std::pow(4.0, 8.0 / 6.0));
  EXPECT_TRUE(read_json(folder.file("hf") + "/config.json")["rope_scaling"].is_null());
}

TEST_F(HuggingFace, ExportRoundsToTheTypeThatIsAskedFor) {
  const std::string path = make_checkpoint(tiny("gpt2"), "run", false);
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    const std::string out = folder.file(name_of(dtype));
    export_hf(env, path, out, {.dtype = dtype});
    EXPECT_FALSE(fs::exists(out + "/tokenizer.json"));
    EXPECT_TRUE(read_json(out + "/config.json")["eos_token_id"].is_null());
    const HfWeights weights(env, out);
    EXPECT_EQ(weights.config().precision.compute, name_of(dtype));
    std::vector<float> values(static_cast<size_t>(weights.shape("embed.weight").numel())),
        original(values.size());
    weights.read("embed.weight", values.data());
    Checkpoint::open(env, path).read("model.embed.weight", original.data());
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(values[i], dtype == Dtype::bf16 ? to_float(from_float<Bf16>(original[i]))
                                                : to_float(from_float<F16>(original[i])));
    EXPECT_LT(fs::file_size(out + "/model.safetensors"),
              2 * 3 * static_cast<uintmax_t>(num_params(tiny("gpt2"))));
  }
  EXPECT_THROW(export_hf(env, path, folder.file("f64"), {.dtype = Dtype::f64}), Error);
  EXPECT_FALSE(fs::exists(folder.file("f64")));
}

TEST_F(HuggingFace, NothingThatExistsIsOverwritten) {
  const std::string path = make_checkpoint(tiny("gpt2"), "run");
  fs::create_directories(folder.file("full"));
  std::ofstream(folder.file("full/notes.txt")) << "mine";
  fs::create_directories(folder.file("empty"));
  EXPECT_THROW(export_hf(env, path, folder.file("full"), {.force = true}), Error);
  EXPECT_THROW(import_hf(env, golden_folder("gpt2"), folder.file("full"), engine.arena, true), Error);
  EXPECT_THROW(import_hf(env, golden_folder("gpt2"), folder.file("run"), engine.arena, true), Error);
  EXPECT_TRUE(fs::exists(folder.file("full/notes.txt")));
  export_hf(env, path, folder.file("empty"), {});
  EXPECT_THROW(export_hf(env, path, folder.file("empty"), {}), Error);
  export_hf(env, path, folder.file("empty") + "/", {.dtype = Dtype::bf16, .force = true});
  EXPECT_EQ(read_json(folder.file("empty/config.json"))["dtype"], "bfloat16");
  import_hf(env, folder.file("empty"), folder.file("ckpt"), engine.arena, false);
  EXPECT_THROW(import_hf(env, folder.file("empty"), folder.file("ckpt"), engine.arena, false), Error);
  import_hf(env, folder.file("empty"), folder.file("ckpt"), engine.arena, true);
}

TEST_F(HuggingFace, AFailedExportLeavesNothing) {
  const std::string path = make_checkpoint(tiny("llama"), "run");
  bool failed = true;
  for (int64_t fail_at = 0; failed; ++fail_at) {
    FaultEnv faulty(fail_at, FaultEnv::Fault::once);
    const std::string message =
        complaint([&] { export_hf(faulty, path, folder.file("out"), {.max_shard_bytes = 3000}); });
    EXPECT_EQ(message.empty(), !faulty.failed()) << fail_at;
    failed = faulty.failed();
    const bool arrived = fs::exists(folder.file("out"));
    if (arrived) {
      EXPECT_EQ(HfWeights(env, folder.file("out")).names().size(), 21u);
      fs::remove_all(folder.file("out"));
    }
    EXPECT_TRUE(arrived || failed);
    for (const auto& name : env.list(folder.path())) EXPECT_EQ(name, "run");
  }
}

TEST_F(HuggingFace, NamesWithoutPrefixAndMasksAreTaken) {
  const SafetensorsFile original(env, golden_folder("gpt2") + "/model.safetensors");
  const std::string path = folder.file("bare");
  fs::create_directories(path);
  fs::copy_file(golden_folder("gpt2") + "/config.json", path + "/config.json");
  std::vector<SafetensorsWriter::Entry> entries = {{"h.0.attn.bias", Dtype::u8, {1, 1, 4, 4}},
                                                   {"h.0.attn.masked_bias", Dtype::f32, {}},
                                                   {"lm_head.weight", Dtype::f32, {131, 48}}};
  for (const StoredTensor& tensor : original.tensors())
    entries.push_back({tensor.name.substr(12), *tensor.dtype, tensor.shape});
  SafetensorsWriter writer(env, path + "/model.safetensors", entries, {});
  for (const StoredTensor& tensor : writer.tensors()) {
    std::string bytes(tensor.size_bytes(), '\0');
    const std::string name = tensor.name == "lm_head.weight" ? "wte.weight" : tensor.name;  // tied
    if (const StoredTensor* found = original.find("transformer." + name))
      original.read(*found, 0, bytes.data(), bytes.size());
    writer.append(bytes.data(), bytes.size());
  }
  writer.finish();
  const HfWeights bare(env, path), full(env, golden_folder("gpt2"));
  ASSERT_EQ(bare.names(), full.names());
  for (const std::string& name : bare.names()) {
    std::vector<float> a(static_cast<size_t>(bare.shape(name).numel())), b(a.size());
    bare.read(name, a.data());
    full.read(name, b.data());
    EXPECT_EQ(a, b) << name;
  }
}

TEST_F(HuggingFace, SettingsThatWeCannotComputeAreRefusedByName) {
  struct Case {
    const char* model;
    const char* key;
    Json value;
  };
  const std::vector<Case> cases = {
      {"llama", "model_type", "gemma"},
      {"llama", "rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}},
      {"llama", "rope_parameters", {{"rope_type", "llama3"}, {"rope_theta", 1e4}}},
      {"llama", "rope_parameters", {{"partial_rotary_factor", 0.5}}},
      {"llama", "rope_parameters", 7},
      {"llama", "hidden_act", "gelu"},
      {"llama", "mlp_bias", true},
      {"llama", "sliding_window", 63},
      {"llama", "quantization_config", {{"bits", 4}}},
      {"llama", "num_hidden_layers", "three"},
      {"llama", "num_hidden_layers", nullptr},
      {"llama", "num_hidden_layers", -1},
      {"llama", "vocab_size", 0},
      {"llama", "tie_word_embeddings", 1},
      {"gpt2", "activation_function", "relu"},
      {"gpt2", "scale_attn_weights", false},
      {"gpt2", "scale_attn_by_inverse_layer_idx", true},
      {"gpt2", "add_cross_attention", true},
      {"gpt2", "n_head", 5},
      {"gpt2", "n_embd", 0.5},
  };
  for (const Case& each : cases) {
    const std::string path = changed(each.model, [&](Json& json) { json[each.key] = each.value; });
    const std::string message = complaint([&] { const HfWeights weights(env, path); });
    EXPECT_NE(message.find(each.key), std::string::npos) << each.key << ": " << message;
    EXPECT_NE(message.find("config.json"), std::string::npos) << message;
  }
  // Changes of the shape name the tensor.
  struct Shape {
    const char *model, *key;
    int64_t value;
    const char* named;
  };
  for (const Shape& each : {Shape{"llama", "intermediate_size", 97, "gate_proj"},
                            {"llama", "num_hidden_layers", 4, "layers.3"},
                            {"llama", "num_hidden_layers", 2, "layers.2"},
                            {"gpt2", "vocab_size", 132, "wte"},
                            {"gpt2", "n_positions", 65, "wpe"},
                            {"llama", "num_hidden_layers", 9999, "layers"}}) {
    const std::string path = changed(each.model, [&](Json& json) { json[each.key] = each.value; });
    const std::string message = complaint([&] { const HfWeights weights(env, path); });
    EXPECT_NE(message.find(each.named), std::string::npos) << each.key << ": " << message;
  }
  // Any form of the rotation's base is read; two that differ are refused.
  const auto base = [&](const std::function<void(Json&)>& change) {
    return HfWeights(env, changed("llama", change)).config().model.rope_theta;
  };
  EXPECT_THROW(base([](Json& json) { json["rope_parameters"]["rope_theta"] = 5e5; }), Error);
  EXPECT_EQ(base([](Json& json) { json.erase("rope_theta"); }), 1e4);
  EXPECT_EQ(base([](Json& json) { json.erase("rope_parameters"), json["rope_theta"] = 2e4; }), 2e4);
  EXPECT_EQ(base([](Json& json) {
              json["rope_parameters"] = nullptr, json["rope_scaling"] = {{"rope_type", "default"}};
            }),
            1e4);
}

TEST_F(HuggingFace, WeightsComeFromRunsCheckpointsAndFolders) {
  const ModelConfig config = tiny("llama");
  const std::string path = make_checkpoint(config, "run");
  std::vector<float> expected(static_cast<size_t>(config.vocab_size * config.hidden_size)),
      found(expected.size());
  Checkpoint::open(env, path).read("model.embed.weight", expected.data());
  export_hf(env, path, folder.file("hf"), {});
  for (const std::string& source :
       {folder.file("run"), folder.file("run/checkpoints"), path, folder.file("hf")}) {
    const LoadedModel loaded = load_model(env, source, engine.arena, std::nullopt);
    EXPECT_EQ(loaded.config.model, config);
    EXPECT_EQ(loaded.model->config(), config);
    EXPECT_EQ(loaded.model->params()[0]->value().dtype(),
              source == folder.file("hf") ? Dtype::f32 : Dtype::bf16);
    EXPECT_FALSE(loaded.tokenizer_json.empty());
    EXPECT_EQ(loaded.step, source == folder.file("hf") ? 0 : 5);

    const auto model = make_model(config);
    model->allocate(engine.arena, Dtype::bf16, true);
    load_params(env, source, *model);
    model->params()[0]->load(found.data());
    EXPECT_EQ(found, expected) << "the masters hold every bit";
  }
}

TEST_F(HuggingFace, WeightsThatDoNotFitAreNamed) {
  const std::string path = make_checkpoint(tiny("gpt2"), "run");
  const auto load = [&](const std::string& source, const ModelConfig& config) {
    const auto model = make_model(config);
    model->allocate(engine.arena, Dtype::f32, true);
    try {
      load_params(env, source, *model);
    } catch (const Failure& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return std::string();
  };
  EXPECT_EQ(load(path, tiny("gpt2")), "");
  ModelConfig other = tiny("gpt2");
  other.vocab_size = 128;
  EXPECT_NE(load(path, other).find("'embed.weight': got [64,12], expected [128,12] | its vocabulary has 64"),
            std::string::npos)
      << load(path, other);
  other = tiny("gpt2");
  other.bias = false;
  EXPECT_NE(load(path, other).find(".bias', which this model has not"), std::string::npos)
      << load(path, other);
  other = tiny("gpt2");
  other.tie_word_embeddings = false;
  EXPECT_NE(load(path, other).find("'head.weight' is missing"), std::string::npos) << load(path, other);
  other = tiny("gpt2");
  other.intermediate_size = 50;
  EXPECT_NE(load(path, other).find("mlp.up.weight': got [48,12], expected [50,12]"), std::string::npos)
      << load(path, other);
  EXPECT_NE(load(path, tiny("llama")), "");

  fs::create_directories(folder.file("nothing"));
  std::ofstream(folder.file("file")) << "x";
  EXPECT_NE(load(folder.file("none"), tiny("gpt2")).find("no such path"), std::string::npos);
  EXPECT_NE(load(folder.file("file"), tiny("gpt2")).find("got a file"), std::string::npos);
  EXPECT_NE(load(folder.file("nothing"), tiny("gpt2")).find("expected a run, a checkpoint"),
            std::string::npos);
  std::ofstream(folder.file("nothing/config.json")) << R"({"model_type":"gpt2"})";
  EXPECT_NE(load(folder.file("nothing"), tiny("gpt2")).find("model.safetensors"), std::string::npos);
  fs::resize_file(path + "/tensors-00000.safetensors", 100);
  const std::string damaged = load(folder.file("run"), tiny("gpt2"));
  EXPECT_NE(damaged.find("none of its 1 checkpoints is valid"), std::string::npos) << damaged;
  EXPECT_NE(damaged.find("tensors-00000"), std::string::npos) << damaged;
}

}  // namespace
}  // namespace athanor::tests::hf_test
