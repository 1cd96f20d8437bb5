// Writes tokenizer.json files: what trained and imported tokenizers have in common.
//
//   OrderedJson file = tokenizer_json(special_tokens);
//   file["model"] = bpe_json(tokens, merges);
//   file.update(byte_level_json(WordPattern::gpt2));
//   std::string text = to_text(file);
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "athanor/text/word_scanner.h"

namespace athanor::text {

using OrderedJson = nlohmann::ordered_json;
using TokenIds = std::vector<std::pair<std::string, int64_t>>;  // in the order to write them

// All keys, the parts still null.
OrderedJson tokenizer_json(const TokenIds& special_tokens);
OrderedJson vocab_json(const TokenIds& tokens);
// Merges stand as "a b", which every version of Hugging Face tokenizers reads; where a token holds a space,
// as
// ["a", "b"].
OrderedJson bpe_json(const TokenIds& tokens, const std::vector<std::pair<std::string, std::string>>& merges);
// The keys pre_tokenizer, post_processor and decoder of a byte-level tokenizer.
OrderedJson byte_level_json(WordPattern pattern);
OrderedJson split_json(WordPattern pattern);
OrderedJson byte_fallback_decoder_json();  // <0xE4> become bytes, then all is joined

std::string to_text(const OrderedJson& file);

}  // namespace athanor::text
