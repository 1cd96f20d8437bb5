// Cuts the source of a template into tokens: texts, tags and what stands in the tags.
//
//   std::vector<LexerToken> tokens = cut_into_tokens("Hi {{ name }}!\n", "tokenizer_config.json: chat_template");
//
// White space follows Jinja as transformers sets it up: trim_blocks and lstrip_blocks are on, "{%-" and "-%}" take all
// white space on their side, "{%+" and "+%}" none, and one line end at the end of the template is dropped. Comments and
// raw blocks are gone from the result. Errors: Error naming the template and the line. Thread rule: pure function.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::text::chat_template {

enum class TokenKind {
  text,
  block_begin,
  block_end,
  output_begin,
  output_end,
  name,
  integer,
  number,
  string,
  symbol,
  end
};

struct LexerToken {
  TokenKind kind;
  std::string text;  // of a string: its value; empty for the tags
  int line;
};

constexpr size_t kMaxTemplateBytes = size_t{4} << 20;

// Error "NAME line LINE: MESSAGE".
[[noreturn]] void fail_at(const std::string& name, int line, const std::string& message);

std::vector<LexerToken> cut_into_tokens(std::string_view source, const std::string& name);

}  // namespace athanor::text::chat_template
