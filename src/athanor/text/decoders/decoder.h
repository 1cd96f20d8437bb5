// Turns the tokens of a sequence of ids back into text, by the steps that tokenizer.json lists.
//
//   decoder->decode(tokens);                       // rewrites the tokens
//   for (const std::string& token : tokens) text += token;
//
// Added tokens are tokens like all others, as in Hugging Face's tokenizers. Thread rule: const methods from any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/text/json_node.h"

namespace athanor::text::decoders {

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void decode(std::vector<std::string>& tokens) const = 0;
};

std::unique_ptr<Decoder> parse_decoder(const JsonNode& node);
std::unique_ptr<Decoder> parse_word_piece_decoder(const JsonNode& node);

}  // namespace athanor::text::decoders
