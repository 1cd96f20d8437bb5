// Which tokens begin a text, end it, and stop a generation, by the files of a tokenizer's folder.
//
//   const SpecialTokens& special = tokenizer->special_tokens();   // .begin, .end, .before, .stops
//
// The end of a text is named by the first of these sources that has one (the begin by its keys in parentheses):
//   1. tokenizer_config.json, then special_tokens_map.json: eos_token (bos_token)
//   2. the model's config.json, then generation_config.json: eos_token_id (bos_token_id); of a list the first id that
//      is an added token. Other ids do not count: a config may hold the default ids of its model family
//   3. the token that tokenizer.json's post_processor puts behind (before) a text
//   4. a *special* added token with a name that published tokenizers use, such as <|endoftext|> or </s>; then any token
//      with such a name that begins with <|
// `before` is what the post_processor puts before a text; add_bos_token of tokenizer_config.json, if present, decides
// whether the begin is part of it. A generation stops at the end of a text and at every eos_token_id of
// generation_config.json (of config.json if that file has none).
// Errors: Error naming file and key if a file names a token that the tokenizer lacks. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/text/added_tokens.h"
#include "athanor/text/json_node.h"
#include "athanor/text/tokenizer_files.h"

namespace athanor::text {

struct SpecialTokens {
  std::optional<int32_t> begin, end;
  std::vector<int32_t> before;  // tokens put before a text
  std::vector<int32_t> stops;   // a generation ends before any of these tokens
  std::string end_from;         // the source of `end`: "tokenizer_config.json: eos_token"
  // What the ids of a document depend on beside tokenizer.json; empty if on nothing else. Part of cache keys.
  std::string identity;
};

// The JSON files beside a tokenizer.json, parsed. `tokenizer_name`, for messages, is the path of tokenizer.json or of
// what holds it.
class FilesBeside {
 public:
  FilesBeside(const TokenizerFiles& files, const std::string& tokenizer_name);
  const JsonFile* find(const std::string& name) const;

 private:
  std::map<std::string, JsonFile> json_;
};

using TokenLookup = std::function<std::optional<int32_t>(std::string_view token)>;

SpecialTokens find_special_tokens(const JsonNode& tokenizer, const FilesBeside& files,
                                  const std::vector<AddedToken>& added, const TokenLookup& id_of);

// Adds to `added` the tokens of added_tokens.json and tokenizer_config.json (added_tokens_decoder) that tokenizer.json
// lacks. Error for an id that another token has.
void add_tokens_beside(const FilesBeside& files, const Vocabulary& vocabulary,
                       std::vector<AddedToken>& added);

}  // namespace athanor::text

namespace athanor {
using text::SpecialTokens;
}  // namespace athanor
