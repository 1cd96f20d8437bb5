#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/base/format_version.h"
#include "athanor/base/hash.h"
#include "athanor/data/tokenize.h"

namespace athanor::data {

std::string tokenizer_hash(const Tokenizer& tokenizer) {
  Hash128 hash;
  hash.update(tokenizer.json());
  hash.update(tokenizer.special_tokens().identity);
  return hash.hex();
}

namespace {

constexpr int64_t kTokenFileFormat = 2;  // 2: it says which files the text was read from

void read_sources(const nlohmann::json& json, TokenFileInfo& info) {
  ReadReport& read = info.read;
  read.documents = info.documents;
  read.text_bytes = info.bytes;
  json.at("files").get_to(read.files);
  json.at("first_files").get_to(read.names);
  json.at("json_files").get_to(read.json_files);
  json.at("separator_lines").get_to(read.separator_lines);
  json.at("plain_separators").get_to(read.plain_separators);
  for (const auto& entry : json.at("left_out"))
    read.left_out.push_back({entry.at("file").get<std::string>(), entry.at("reason").get<std::string>()});
}

}  // namespace

std::string token_file_info_json(const TokenFileInfo& info) {
  auto left_out = nlohmann::ordered_json::array();
  for (const LeftOut& entry : info.read.left_out)
    left_out.push_back({{"file", entry.file}, {"reason", entry.reason}});
  const nlohmann::ordered_json json = {{"format", kTokenFileFormat},
                                       {"documents", info.documents},
                                       {"tokens", info.tokens},
                                       {"bytes", info.bytes},
                                       {"files", info.read.files},
                                       {"first_files", info.read.names},
                                       {"json_files", info.read.json_files},
                                       {"separator_lines", info.read.separator_lines},
                                       {"plain_separators", info.read.plain_separators},
                                       {"left_out", left_out},
                                       {"tokenizer_hash", info.tokenizer_hash},
                                       {"vocab_size", info.vocab_size},
                                       {"end_of_text", info.end_of_text},
                                       {"text_key", info.text_key},
                                       {"source", info.source},
                                       {"content_hash", info.content_hash}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

TokenFileInfo parse_token_file_info(const std::string& text, const std::string& path) {
  try {
    const auto json = nlohmann::json::parse(text);
    check_format(path, json.at("format").get<int64_t>(), kTokenFileFormat,
                 "remove the files beside it that have its name, and tokenize the text again");
    TokenFileInfo info;
    json.at("documents").get_to(info.documents);
    json.at("tokens").get_to(info.tokens);
    json.at("bytes").get_to(info.bytes);
    read_sources(json, info);
    json.at("tokenizer_hash").get_to(info.tokenizer_hash);
    json.at("vocab_size").get_to(info.vocab_size);
    json.at("end_of_text").get_to(info.end_of_text);
    json.at("text_key").get_to(info.text_key);
    json.at("source").get_to(info.source);
    json.at("content_hash").get_to(info.content_hash);
    return info;
  } catch (const nlohmann::json::exception& error) {
    fail("'{}': is damaged: {}", path, error.what());
  }
}

std::optional<TokenFileInfo> read_token_file_info(Env& env, const std::string& prefix) {
  const std::string path = prefix + ".meta.json";
  if (!env.exists(path)) return std::nullopt;
  constexpr uint64_t kMaxBytes = uint64_t{16} << 20;
  return parse_token_file_info(env.read_text(path, kMaxBytes), path);
}

}  // namespace athanor::data
