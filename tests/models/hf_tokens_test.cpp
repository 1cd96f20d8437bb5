// What a Hugging Face folder says of its tokenizer goes through a checkpoint and comes out as it went in.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/models/hf.h"
#include "athanor/models/load.h"
#include "athanor/text/tokenizer.h"
#include "checkpoint/content.h"
#include "models/golden.h"
#include "support/fault_env.h"

namespace athanor::tests::hf_tokens_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const char* const kTokenizer = R"({"version": "1.0",
  "added_tokens": [{"id": 1, "content": "<s>", "special": true}, {"id": 2, "content": "</s>", "special": true},
                   {"id": 3, "content": "<|turn|>", "special": true}],
  "model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0}}})";

class HfTokens : public ::testing::Test {
 protected:
  // The golden LLaMA with these files beside it; `ids` are put into its config.json.
  std::string make(const std::string& name, const Json& ids, const TokenizerFiles& files) {
    std::string path = folder.file(name);
    fs::create_directories(path);
    fs::copy_file(golden_folder("llama") + "/model.safetensors", path + "/model.safetensors");
    Json config = Json::parse(system_env().read_text(golden_folder("llama") + "/config.json"));
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) config.erase(key);
    config.update(ids);
    std::ofstream(path + "/config.json") << config;
    for (const auto& [file, text] : files) std::ofstream(join_path(path, file)) << text;
    return path;
  }
  Json exported(const std::string& file) {
    return Json::parse(system_env().read_text(folder.file("out/" + file)));
  }

  const TestFolder folder;
  Engine engine;
  FaultEnv env;
};

TEST_F(HfTokens, ComeOutAsTheyWentIn) {
  const TokenizerFiles files = {
      {"tokenizer.json", kTokenizer},
      {"tokenizer_config.json",
       R"({"eos_token": {"content": "<|turn|>"}, "chat_template": "{{ messages }}", "x": [1]})"},
      {"special_tokens_map.json", R"({"eos_token": "<|turn|>"})"},
      {"generation_config.json", R"({"eos_token_id": [2, 3], "temperature": 0.6})"},
      {"added_tokens.json", R"({"<|tool|>": 4})"},
      {"chat_template.jinja", "{{ m }}\r\n"}};
  const std::string in =
      make("in", {{"bos_token_id", 1}, {"eos_token_id", {2, 3}}, {"pad_token_id", 0}}, files);
  std::ofstream(in + "/README.md") << "x";
  EXPECT_EQ(import_hf(env, in, folder.file("checkpoint"), engine.arena, false),
            (std::vector<std::string>{"README.md"}));
  export_hf(env, folder.file("checkpoint"), folder.file("out"), {});
  for (const auto& [name, text] : files)
    EXPECT_EQ(system_env().read_text(folder.file("out/" + name)), text) << name;
  EXPECT_FALSE(fs::exists(folder.file("out/special_token_ids.json")));
  EXPECT_EQ(exported("config.json")["bos_token_id"], 1);
  EXPECT_EQ(exported("config.json")["eos_token_id"], Json({2, 3}));
  EXPECT_EQ(exported("config.json")["pad_token_id"], 0);

  for (const std::string& path : {in, folder.file("checkpoint"), folder.file("out")}) {
    const LoadedModel loaded = load_model(env, path, engine.arena, std::nullopt);
    const auto tokenizer = Tokenizer::parse(loaded.tokenizer_json, "t", loaded.tokenizer_files);
    EXPECT_EQ(tokenizer->special_tokens().begin, 1) << path;
    EXPECT_EQ(tokenizer->end_of_text(), 3) << path;
    EXPECT_EQ(tokenizer->special_tokens().stops, (std::vector<int32_t>{2, 3})) << path;
    EXPECT_EQ(tokenizer->encode("<|tool|>"), (std::vector<int32_t>{4})) << path;
  }
  // A checkpoint's tokenizer.json is that of a folder too: training and `--tokenizer CHECKPOINT` read all of it.
  EXPECT_EQ(Tokenizer::load(env, folder.file("checkpoint/tokenizer.json"))->end_of_text(), 3);
  EXPECT_EQ(Tokenizer::load(env, folder.file("checkpoint/tokenizer.json"))->files().size(), files.size() + 1);
}

TEST_F(HfTokens, AFolderThatSaysLittleIsCompleted) {
  import_hf(env, make("in", Json::object(), {{"tokenizer.json", kTokenizer}}), folder.file("checkpoint"),
            engine.arena, false);
  export_hf(env, folder.file("checkpoint"), folder.file("out"), {});
  EXPECT_EQ(exported("config.json")["bos_token_id"], 1);
  EXPECT_EQ(exported("config.json")["eos_token_id"], 2);
  EXPECT_EQ(exported("generation_config.json")["eos_token_id"], 2);
  EXPECT_EQ(exported("tokenizer_config.json")["eos_token"], "</s>");
  EXPECT_EQ(exported("tokenizer_config.json")["bos_token"], "<s>");
}

TEST_F(HfTokens, IdsStayWithoutATokenizer) {
  import_hf(env, make("in", {{"bos_token_id", 5}, {"eos_token_id", 6}}, {}), folder.file("checkpoint"),
            engine.arena, false);
  export_hf(env, folder.file("checkpoint"), folder.file("out"), {});
  EXPECT_EQ(exported("config.json")["bos_token_id"], 5);
  EXPECT_EQ(exported("config.json")["eos_token_id"], 6);
  EXPECT_FALSE(fs::exists(folder.file("out/tokenizer_config.json")));
}

TEST_F(HfTokens, AnAdapterIsRefused) {
  const std::string path = make("in", Json::object(), {{"adapter_config.json", "{}"}});
  EXPECT_THROW(import_hf(env, path, folder.file("checkpoint"), engine.arena, false), Error);
  EXPECT_FALSE(fs::exists(folder.file("checkpoint")));
}

TEST_F(HfTokens, AHeadOfItsOwnInATiedModelIsRefused) {
  const SafetensorsFile original(env, golden_folder("llama") + "/model.safetensors");
  const StoredTensor& embedding = original.at("model.embed_tokens.weight");
  std::string values(embedding.size_bytes(), '\0');
  original.read(embedding, 0, values.data(), values.size());
  for (const bool differs : {false, true}) {
    const std::string path = folder.file(differs ? "differs" : "same");
    fs::create_directories(path);
    Json config = Json::parse(system_env().read_text(golden_folder("llama") + "/config.json"));
    config["tie_word_embeddings"] = true;
    std::ofstream(path + "/config.json") << config;
    std::vector<SafetensorsWriter::Entry> entries;
    for (const StoredTensor& tensor : original.tensors())
      if (tensor.name != "lm_head.weight") entries.push_back({tensor.name, *tensor.dtype, tensor.shape});
    entries.push_back({"lm_head.weight", *embedding.dtype, embedding.shape});
    SafetensorsWriter writer(env, path + "/model.safetensors", entries, {});
    for (const StoredTensor& tensor : writer.tensors()) {
      std::string bytes = values;
      if (tensor.name == "lm_head.weight")
        bytes.back() = static_cast<char>(bytes.back() ^ (differs ? 1 : 0));
      else {
        const StoredTensor& source = original.at(tensor.name);
        bytes.resize(source.size_bytes());
        original.read(source, 0, bytes.data(), bytes.size());
      }
      writer.append(bytes.data(), bytes.size());
    }
    writer.finish();
    try {
      const HfWeights weights(env, path);
      EXPECT_FALSE(differs);
    } catch (const Error& error) {
      EXPECT_TRUE(differs) << error.what();
      for (const char* named : {"lm_head.weight", "tie_word_embeddings"})
        EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace athanor::tests::hf_tokens_test
