#include "athanor/text/tokenizer_files.h"

#include <nlohmann/json.hpp>

namespace athanor::text {
namespace {

// The largest published tokenizer.json are around 35 MB.
constexpr uint64_t kMaxCompanionBytes = uint64_t{256} << 20;

}  // namespace

const std::vector<std::string>& tokenizer_file_names() {
  static const std::vector<std::string> names = {
      kTokenizerFile,        "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
      "chat_template.jinja", "chat_template.json",    "generation_config.json",  kTokenIdsFile};
  return names;
}

TokenizerFiles read_tokenizer_files(Env& env, const std::string& folder) {
  TokenizerFiles files;
  for (const std::string& name : tokenizer_file_names()) {
    const std::string path = join_path(folder, name);
    if (env.exists(path) && !env.is_folder(path)) files[name] = env.read_text(path, kMaxCompanionBytes);
  }
  const std::string config = join_path(folder, "config.json");
  if (files.contains(kTokenIdsFile) || !env.exists(config) || env.is_folder(config)) return files;
  std::string ids = token_ids_of_config(env.read_text(config, kMaxCompanionBytes));
  if (!ids.empty()) files[kTokenIdsFile] = std::move(ids);
  return files;
}

std::string token_ids_of_config(std::string_view config_json) {
  const auto config = nlohmann::json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object() || !config.contains("model_type")) return {};
  nlohmann::ordered_json ids;
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (const auto found = config.find(key); found != config.end()) ids[key] = *found;
  return ids.empty() ? std::string() : ids.dump() + "\n";
}

}  // namespace athanor::text
