#include "athanor/text/formats/gpt2.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <unordered_set>

#include "athanor/base/check.h"
#include "athanor/text/byte_level.h"
#include "athanor/text/models/model.h"
#include "athanor/text/tokenizer.h"
#include "athanor/text/tokenizer_writer.h"
#include "athanor/text/trainers/train_types.h"
#include "athanor/text/unicode.h"

namespace athanor::text::formats {
namespace {

constexpr uint64_t kMaxGpt2FileBytes = uint64_t{256} << 20;

using TextPairs = std::vector<std::pair<std::string, std::string>>;

TextPairs parse_merges(std::string_view text, const std::string& name) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte-order mark, which some editors leave
  TextPairs merges;
  int64_t line_number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if ((++line_number == 1 && line.starts_with("#version")) || line.empty()) continue;
    const size_t space = line.find(' ');
    check(space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
              line.find(' ', space + 1) == std::string_view::npos,
          "{}: line {}: got '{}', expected two tokens with one space between", name, line_number,
          line.substr(0, 80));
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return merges;
}

bool looks_special(const std::string& token) {
  return token.size() > 2 &&
         ((token.front() == '<' && token.back() == '>') || (token.front() == '[' && token.back() == ']'));
}

// Tokens that only the files beside vocab.json have, as Qwen's <|endoftext|> in added_tokens.json.
void add_beside(const TokenizerFiles& files, const std::string& vocab_path,
                const text::Vocabulary& vocabulary, const text::TokenIds& special, text::OrderedJson& list) {
  std::vector<text::AddedToken> added;
  for (const auto& [content, id] : special)
    added.push_back({.content = content, .id = static_cast<int32_t>(id)});
  const size_t known = added.size();
  text::add_tokens_beside({files, join_path(parent_folder(vocab_path), kTokenizerFile)}, vocabulary, added);
  for (const text::AddedToken& token : std::span(added).subspan(known))
    list.push_back({{"id", token.id},
                    {"content", token.content},
                    {"single_word", token.single_word},
                    {"lstrip", token.lstrip},
                    {"rstrip", token.rstrip},
                    {"normalized", false},
                    {"special", token.special || looks_special(token.content)}});
}

}  // namespace

std::string import_gpt2(Env& env, const std::string& vocab_path, const std::string& merges_path,
                        const std::string& pattern) {
  const text::WordPattern word_pattern = text::pattern_named(pattern);
  const text::JsonFile file(vocab_path, env.read_text(vocab_path, kMaxGpt2FileBytes));
  const text::Vocabulary vocabulary = text::parse_vocabulary(file.root());
  const TextPairs merges = parse_merges(env.read_text(merges_path, kMaxGpt2FileBytes), merges_path);
  std::unordered_set<std::string> made;
  for (const auto& [left, right] : merges) {
    for (const std::string& token : {left, right, left + right})
      check(vocabulary.find(token).has_value(), "{}: token '{}' of merge '{} {}' is not in {}", merges_path,
            token, left, right, vocab_path);
    made.insert(left + right);
  }
  text::TokenIds tokens, special;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string* const token = vocabulary.token(id);
    if (!token) continue;
    tokens.emplace_back(*token, id);
    if (looks_special(*token) && !made.contains(*token))
      special.push_back(tokens.back());
    else
      check(text::chars_to_bytes(*token).has_value(),
            "{}: token '{}' has characters that stand for no byte: not a byte-level vocabulary", vocab_path,
            *token);
  }
  text::OrderedJson json = text::tokenizer_json(special);
  add_beside(read_tokenizer_files(env, parent_folder(vocab_path)), vocab_path, vocabulary, special,
             json["added_tokens"]);
  json.update(text::byte_level_json(regex_of(word_pattern)));
  json["model"] = text::bpe_json(tokens, merges);
  std::string result = text::to_text(json);
  Tokenizer::parse(result, merges_path);  // finds merges that make no token
  return result;
}

}  // namespace athanor::text::formats
