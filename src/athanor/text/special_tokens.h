// Which tokens begin a text, end it, and end a generation: what the files of a tokenizer's folder say.
//
// The end of a text is the first of these that names one (the begin likewise):
//   1. tokenizer_config.json, then special_tokens_map.json: eos_token (bos_token)
//   2. the model's config.json, then generation_config.json: eos_token_id (bos_token_id); of a list the first, and only
//      an added token: a config may hold its family's default ids, whatever the tokenizer
//   3. what tokenizer.json's post_processor puts behind (before) a text
//   4. of a tokenizer.json alone: a *special* added token with a name that published tokenizers give it, such as
//      <|endoftext|> or </s>
// A text is preceded by what the post_processor puts before it; where tokenizer_config.json has add_bos_token, that
// says whether the begin is among it. A generation stops at every eos_token_id of generation_config.json (where that
// has none, of config.json) and at the end of a text.
// Errors: an Error naming file and key where a token is named that the tokenizer has not. Thread rule: plain data.
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

namespace athanor {

struct SpecialTokens {
  std::optional<int32_t> begin, end;
  std::vector<int32_t> before;  // a text
  std::vector<int32_t> stops;   // a generation ends before any of these
  std::string end_from;         // where the end is named: "tokenizer_config.json: eos_token"
  // What tokenizer.json alone does not say of the ids of a document: empty where it says all.
  std::string identity;
};

namespace text {

// The JSON files beside a tokenizer.json, read; `tokenizer_name` is its path or that of what holds it.
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

// Tokens that added_tokens.json or tokenizer_config.json (added_tokens_decoder) names and tokenizer.json does not: adds
// them to `added`. Errors: an id that another token has.
void add_tokens_beside(const FilesBeside& files, const Vocabulary& vocabulary,
                       std::vector<AddedToken>& added);

}  // namespace text
}  // namespace athanor
