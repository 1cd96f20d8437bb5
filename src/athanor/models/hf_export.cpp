#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/format/staged_folder.h"
#include "athanor/config/load.h"
#include "athanor/config/phases.h"
#include "athanor/models/hf.h"
#include "athanor/models/hf_family.h"
#include "athanor/models/load.h"
#include "athanor/store/json.h"
#include "athanor/text/tokenizer.h"

namespace athanor::models {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTransformersVersion = "4.46.0";  // the oldest version that reads these folders

// The checkpoint's tokenizer and the ids of its special tokens.
struct ExportedTokens {
  TokenizerFiles files;
  std::shared_ptr<const Tokenizer> tokenizer;  // null where there is none
  Json ids = Json::object();                   // from the config.json that was imported

  Json id(const char* key, const std::optional<int32_t>& token) const {
    if (const auto found = ids.find(key); found != ids.end()) return *found;
    return token ? Json(*token) : Json(nullptr);
  }
  Json begin_id() const {
    return id("bos_token_id", tokenizer ? tokenizer->special_tokens().begin : std::nullopt);
  }
  Json end_id() const {
    return id("eos_token_id", tokenizer ? tokenizer->special_tokens().end : std::nullopt);
  }
};

ExportedTokens tokens_of(const Checkpoint& checkpoint) {
  ExportedTokens tokens{.files = tokenizer_files_of(checkpoint), .tokenizer = nullptr};
  if (const auto found = tokens.files.find(kTokenizerFile); found != tokens.files.end())
    tokens.tokenizer =
        Tokenizer::parse(found->second, join_path(checkpoint.path(), kTokenizerFile), tokens.files);
  if (const auto found = tokens.files.find(kTokenIdsFile); found != tokens.files.end())
    tokens.ids = parse_json(found->second, kTokenIdsFile);
  return tokens;
}

const char* torch_name(Dtype dtype) {
  check(dtype == Dtype::f32 || dtype == Dtype::bf16 || dtype == Dtype::f16,
        "export: got dtype {}, expected f32, bf16 or f16", name_of(dtype));
  return dtype == Dtype::f32 ? "float32" : dtype == Dtype::bf16 ? "bfloat16" : "float16";
}

std::string config_json(const HfFamily& family, const ModelConfig& model, const ExportedTokens& tokens,
                        Dtype dtype) {
  Json config;
  config["architectures"] = {family.architecture};
  config["model_type"] = family.model_type;
  family.write(model, config);
  config["bos_token_id"] = tokens.begin_id();
  config["eos_token_id"] = tokens.end_id();
  if (!config.contains("pad_token_id")) config["pad_token_id"] = tokens.id("pad_token_id", std::nullopt);
  config["use_cache"] = true;
  config["dtype"] = torch_name(dtype);
  config["torch_dtype"] = torch_name(dtype);
  config["transformers_version"] = kTransformersVersion;
  return config.dump(2) + "\n";
}

std::string generation_json(const ExportedTokens& tokens) {
  return Json{{"_from_model_config", true},
              {"bos_token_id", tokens.begin_id()},
              {"eos_token_id", tokens.end_id()},
              {"transformers_version", kTransformersVersion}}
             .dump(2) +
         "\n";
}

std::string tokenizer_config_json(const ExportedTokens& tokens, int64_t max_seq_len) {
  Json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
               {"model_max_length", max_seq_len},
               {"clean_up_tokenization_spaces", false}};
  const SpecialTokens& special = tokens.tokenizer->special_tokens();
  if (special.begin) json["bos_token"] = tokens.tokenizer->token_of(*special.begin);
  if (special.end) json["eos_token"] = tokens.tokenizer->token_of(*special.end);
  return json.dump(2) + "\n";
}

void write_file(Env& env, const std::string& path, const std::string& text) {
  const auto file = env.create(path);
  file->append(text);
  file->sync();
  file->close();
}

class Exporter {
 public:
  Exporter(Env& env, const Checkpoint& checkpoint, const ModelConfig& model, const HfExportOptions& options)
      : env_(env), checkpoint_(checkpoint), options_(options), tensors_(hf_family_of(model).tensors(model)) {}

  void write(const std::string& folder) {
    const auto shards = cut();
    std::map<std::string, std::string> file_of;
    uint64_t total_bytes = 0;
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string name = safetensors_shard_name(i, shards.size());
      for (const auto& [tensor_name, tensor] : shards[i]) {
        file_of.emplace(tensor_name, name);
        total_bytes += size_bytes(*tensor);
      }
      write_shard(join_path(folder, name), shards[i]);
    }
    if (shards.size() > 1)
      write_file(env_, join_path(folder, "model.safetensors.index.json"),
                 make_safetensors_index(file_of, total_bytes));
  }

  // Reads everything back through the import and compares it with the checkpoint, rounded as it was written.
  void compare(const std::string& folder) {
    const HfWeights written(env_, folder);
    for (const std::string& name : written.names()) {
      const size_t count = static_cast<size_t>(written.shape(name).numel());
      std::vector<float> values(count), original(count);
      written.read(name, values.data());
      checkpoint_.read("model." + name, written.shape(name), original.data());
      std::string rounded(count * size_of(options_.dtype), '\0');
      convert_from_f32(options_.dtype, original.data(), static_cast<int64_t>(count), rounded.data());
      convert_to_f32(options_.dtype, rounded.data(), static_cast<int64_t>(count), original.data());
      check(std::memcmp(values.data(), original.data(), count * sizeof(float)) == 0,
            "'{}': '{}' reads back with other values than were written", folder, name);
    }
  }

 private:
  using Shard = std::map<std::string, const HfTensor*>;

  const Shape& part_shape(const std::string& name) const { return checkpoint_.at("model." + name).shape; }
  Shape shape_of(const HfTensor& tensor) const {
    return shape_there(tensor, [&](const std::string& part) -> const Shape& { return part_shape(part); });
  }
  uint64_t size_bytes(const HfTensor& tensor) const {
    return static_cast<uint64_t>(shape_of(tensor).numel()) * size_of(options_.dtype);
  }

  std::vector<Shard> cut() const {
    std::vector<Shard> shards(1);
    uint64_t filled = 0;
    for (const HfTensor& tensor : tensors_) {
      if (!shards.back().empty() && filled + size_bytes(tensor) > options_.max_shard_bytes) {
        shards.emplace_back();
        filled = 0;
      }
      shards.back().emplace(tensor.name, &tensor);
      filled += size_bytes(tensor);
    }
    return shards;
  }

  void write_shard(const std::string& path, const Shard& shard) {
    std::vector<SafetensorsWriter::Entry> entries;
    for (const auto& [name, tensor] : shard) entries.push_back({name, options_.dtype, shape_of(*tensor)});
    SafetensorsWriter writer(env_, path, entries, {{"format", "pt"}});
    for (const StoredTensor& stored : writer.tensors()) {
      const std::vector<float> values = assemble(*shard.at(stored.name));
      std::string bytes(stored.size_bytes(), '\0');
      convert_from_f32(options_.dtype, values.data(), static_cast<int64_t>(values.size()), bytes.data());
      writer.append(bytes.data(), bytes.size());
    }
    writer.finish();
  }

  std::vector<float> assemble(const HfTensor& tensor) const {
    const Shape shape = shape_of(tensor);
    if (tensor.slice >= 0) {
      std::vector<float> stack(static_cast<size_t>(part_shape(tensor.parts[0]).numel()));
      checkpoint_.read("model." + tensor.parts[0], stack.data());
      const auto first = stack.begin() + tensor.slice * shape.numel();
      return {first, first + shape.numel()};
    }
    std::vector<float> values(static_cast<size_t>(shape.numel()));
    float* next = values.data();
    for (const std::string& part : tensor.parts) {
      checkpoint_.read("model." + part, next);
      next += part_shape(part).numel();
    }
    if (!tensor.transposed) return values;
    const auto rows = static_cast<size_t>(shape[1]), columns = static_cast<size_t>(shape[0]);
    std::vector<float> turned(values.size());
    for (size_t row = 0; row < rows; ++row)
      for (size_t column = 0; column < columns; ++column)
        turned[column * rows + row] = values[row * columns + column];
    return turned;
  }

  Env& env_;
  const Checkpoint& checkpoint_;
  const HfExportOptions& options_;
  std::vector<HfTensor> tensors_;
};

void check_free_for_model(Env& env, const std::string& path, bool force) {
  if (!env.exists(path)) return;
  const bool is_model = env.exists(join_path(path, "config.json"));
  if (env.is_folder(path) && (env.list(path).empty() || (force && is_model))) return;
  throw Error(fmt::format("'{}': already exists, expected a new or empty folder", path),
              is_model ? "give --force to replace this model" : "");
}

}  // namespace

void export_hf(Env& env, const std::string& path, const std::string& folder, const HfExportOptions& options) {
  torch_name(options.dtype);
  check_free_for_model(env, folder, options.force);
  const WeightsPath weights = find_weights(env, path);
  check(weights.kind == WeightsPath::Kind::checkpoint,
        "'{}': got a Hugging Face folder, expected a checkpoint", path);
  const Checkpoint checkpoint = Checkpoint::open(env, weights.path);
  const std::string config_name = "config.resolved.toml";
  const ModelConfig model =
      model_at(parse_config(checkpoint.file_text(config_name), join_path(weights.path, config_name)),
               checkpoint.step());
  const HfFamily& family = hf_family_of(model);
  const ExportedTokens tokens = tokens_of(checkpoint);

  StagedFolder staged(env, folder);
  const auto write = [&](const char* name, const std::string& text) {
    write_file(env, join_path(staged.path(), name), text);
  };
  write("config.json", config_json(family, model, tokens, options.dtype));
  // Files of an imported tokenizer are copied unchanged; missing ones are generated.
  for (const auto& [name, text] : tokens.files)
    if (name != kTokenIdsFile) write(name.c_str(), text);
  if (!tokens.files.contains("generation_config.json"))
    write("generation_config.json", generation_json(tokens));
  if (tokens.tokenizer && !tokens.files.contains("tokenizer_config.json"))
    write("tokenizer_config.json", tokenizer_config_json(tokens, model.max_position_embeddings));
  Exporter exporter(env, checkpoint, model, options);
  exporter.write(staged.path());
  exporter.compare(staged.path());
  staged.commit();
}

}  // namespace athanor::models
