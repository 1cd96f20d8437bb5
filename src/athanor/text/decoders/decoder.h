// Turns the tokens of a sequence of ids back into text, by the steps that tokenizer.json lists.
//
//   decoder->decode(tokens);                       // rewrites the tokens
//   for (const Token& t : tokens) text += t.text;
//
// Added tokens are their own text and pass unchanged. Thread rule: const methods from any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/text/json_node.h"

namespace athanor::text::decoders {

struct Token {
  std::string text;
  bool is_added = false;
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void decode(std::vector<Token>& tokens) const = 0;
};

std::unique_ptr<Decoder> parse_decoder(const JsonNode& node);
std::unique_ptr<Decoder> parse_word_piece_decoder(const JsonNode& node);

}  // namespace athanor::text::decoders
