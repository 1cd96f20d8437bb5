#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/text/chat_template/chat_template.h"
#include "athanor/text/json_node.h"

namespace athanor::text::chat_template {
namespace {

std::string file_path(const std::string& tokenizer_name, const char* file) {
  return tokenizer_name.ends_with(kTokenizerFile) ? join_path(parent_folder(tokenizer_name), file)
                                                  : tokenizer_name + ": " + file;
}

std::optional<std::string> named_template(const JsonNode& node, const std::string& which) {
  if (!node.value().is_array()) return node.text();
  std::string names;
  for (const JsonNode& item : node.items()) {
    const std::string name = item.at("name").text();
    if (name == which) return item.at("template").text();
    names += (names.empty() ? "'" : "', '") + name;
  }
  node.fail(fmt::format("has no template '{}', only {}", which, names.empty() ? "none" : names + "'"));
}

}  // namespace

std::map<std::string, std::string> special_token_texts(const TokenizerFiles& files,
                                                       const std::string& tokenizer_name) {
  std::map<std::string, std::string> tokens;
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto found = files.find(file);
    if (found == files.end()) continue;
    const JsonFile json(file_path(tokenizer_name, file), found->second);
    const JsonNode root = json.root();
    if (!root.value().is_object()) root.fail_type("object");
    for (const auto& [key, value] : root.value().items()) {
      const bool is_object = value.is_object() && value.contains("content");
      if (!key.ends_with("_token") || (!value.is_string() && !is_object)) continue;
      tokens.try_emplace(key, is_object ? root.at(key).at("content").text() : root.at(key).text());
    }
  }
  return tokens;
}

std::shared_ptr<const ChatTemplate> ChatTemplate::of(const TokenizerFiles& files,
                                                     const std::string& tokenizer_name,
                                                     const std::string& which) {
  std::map<std::string, std::string> tokens = special_token_texts(files, tokenizer_name);
  constexpr const char* kTemplateFile = "chat_template.jinja";
  if (const auto found = files.find(kTemplateFile); found != files.end() && which == "default")
    return parse(found->second, file_path(tokenizer_name, kTemplateFile), std::move(tokens));
  for (const char* file : {"tokenizer_config.json", "chat_template.json"}) {
    const auto found = files.find(file);
    if (found == files.end()) continue;
    const JsonFile json(file_path(tokenizer_name, file), found->second);
    const auto node = json.root().find("chat_template");
    if (!node) continue;
    if (const auto source = named_template(*node, which))
      return parse(*source, node->name(), std::move(tokens));
  }
  return nullptr;
}

}  // namespace athanor::text::chat_template
