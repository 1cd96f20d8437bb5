#include "athanor/text/formats/bert_vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "athanor/base/check.h"
#include "athanor/text/json_node.h"
#include "athanor/text/tokenizer_writer.h"
#include "athanor/text/unicode.h"

namespace athanor::text::formats {
namespace {

constexpr uint64_t kMaxVocabularyBytes = uint64_t{256} << 20;
constexpr const char* kSpecial[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

OrderedJson normalizer_of(Env& env, const std::string& path, bool lowercases) {
  OrderedJson normalizer = {{"type", "BertNormalizer"},
                            {"clean_text", true},
                            {"handle_chinese_chars", true},
                            {"strip_accents", nullptr},
                            {"lowercase", lowercases}};
  const std::string config_path = join_path(parent_folder(path), "tokenizer_config.json");
  if (!env.exists(config_path)) return normalizer;
  const JsonFile config(config_path, env.read_text(config_path, kMaxVocabularyBytes));
  for (const auto& [key, ours] :
       {std::pair("do_lower_case", "lowercase"), std::pair("strip_accents", "strip_accents"),
        std::pair("tokenize_chinese_chars", "handle_chinese_chars")})
    if (const auto value = config.root().find(key)) normalizer[ours] = value->boolean();
  return normalizer;
}

}  // namespace

std::string import_bert_vocabulary(Env& env, const std::string& path) {
  const std::string text = env.read_text(path, kMaxVocabularyBytes);
  const size_t bad = find_invalid_utf8(text);
  check(bad == std::string::npos, "{}: not UTF-8 at offset {}", path, bad);
  TokenIds tokens;
  std::unordered_map<std::string, int64_t> ids;
  bool has_upper_case = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string token = text.substr(at, end - at);
    if (token.ends_with('\r')) token.pop_back();
    at = end + 1;
    const auto id = static_cast<int64_t>(tokens.size());
    check(!token.empty(), "{}: line {} is empty, expected a token", path, id + 1);
    check(ids.emplace(token, id).second, "{}: line {}: token '{}' stands twice", path, id + 1, token);
    const uint32_t first = decode_utf8(token, 0).value;
    has_upper_case |= lowercase_of(first) != first;
    tokens.emplace_back(std::move(token), id);
  }
  check(ids.contains("[UNK]"), "{}: no line is '[UNK]', expected a WordPiece vocabulary", path);
  TokenIds special;
  for (const char* const name : kSpecial)
    if (const auto found = ids.find(name); found != ids.end()) special.emplace_back(name, found->second);
  std::ranges::sort(special, {}, &TokenIds::value_type::second);
  OrderedJson file = tokenizer_json(special);
  file["normalizer"] = normalizer_of(env, path, !has_upper_case);
  file["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  if (ids.contains("[CLS]") && ids.contains("[SEP]"))
    file["post_processor"] = {{"type", "BertProcessing"},
                              {"sep", OrderedJson::array({"[SEP]", ids.at("[SEP]")})},
                              {"cls", OrderedJson::array({"[CLS]", ids.at("[CLS]")})}};
  file["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  file["model"] = {{"type", "WordPiece"},
                   {"unk_token", "[UNK]"},
                   {"continuing_subword_prefix", "##"},
                   {"max_input_chars_per_word", 100},
                   {"vocab", vocab_json(tokens)}};
  return to_text(file);
}

}  // namespace athanor::text::formats
