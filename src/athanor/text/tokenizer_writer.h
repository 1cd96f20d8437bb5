// Writes tokenizer.json files: the parts that trained and imported tokenizers share.
//
//   OrderedJson file = tokenizer_json(special_tokens);
//   file["model"] = bpe_json(tokens, merges);
//   file.update(byte_level_json(regex_of(WordPattern::gpt2)));
//   std::string text = to_text(file);
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/text/pre_tokenizers/word_scanner.h"

namespace athanor::text {

using OrderedJson = nlohmann::ordered_json;
using TokenIds = std::vector<std::pair<std::string, int64_t>>;  // in the order to write them

// All keys of a tokenizer.json; the values of the parts are null.
OrderedJson tokenizer_json(const TokenIds& special_tokens);
OrderedJson vocab_json(const TokenIds& tokens);
// Merges are written as "a b", which every version of Hugging Face tokenizers reads, or as ["a", "b"] if a token holds
// a space.
OrderedJson bpe_json(const TokenIds& tokens, const std::vector<std::pair<std::string, std::string>>& merges);
// The keys pre_tokenizer, post_processor and decoder of a byte-level tokenizer.
OrderedJson byte_level_json(std::string_view regex);  // that cuts the text into words
OrderedJson split_json(std::string_view regex);
OrderedJson byte_fallback_decoder_json();  // turns <0xE4> into bytes, then joins all tokens

std::string to_text(const OrderedJson& file);

}  // namespace athanor::text
