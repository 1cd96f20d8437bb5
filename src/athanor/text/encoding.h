// The tokens of a text with their places: what `tokenizer encode --offsets --tokens --special` shows.
//
//   Encoding encoding = tokenizer->encode_with_offsets("Hello world", {.tokens = true});
//   encoding.ids;      // {15496, 995}
//   encoding.ranges;   // {0, 5}, {5, 11}: bytes of the text
//   encoding = tokenizer->with_special_tokens(encoding);   // as the file's post_processor has it
//
// Ranges keep to whole characters, so that tokens that share a character overlap. They are those of Hugging Face's
// tokenizers, trimmed where the file trims them; a special token that stands for no text has an empty one at 0.
// Thread rule: plain data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "athanor/text/byte_span.h"
#include "athanor/text/normalized_text.h"

namespace athanor::text {

struct Encoding {
  std::vector<int32_t> ids = {};
  std::vector<TextRange> ranges = {};
  std::vector<std::string> tokens = {};  // empty if they were not asked for
  std::vector<int32_t> types = {};       // which text of a pair: 0 or 1, or what the template says
  std::vector<bool> special = {};        // put in by the template
};

struct EncodeOptions {
  bool ordinary = false;  // special tokens in the text are ordinary text, as in encode_ordinary()
  bool tokens = false;    // fill Encoding::tokens
  bool trims = true;      // trim the ranges where the file wants that
  std::span<const ByteSpan> ordinary_parts =
      {};  // special tokens are ordinary text in these parts of the text
};

}  // namespace athanor::text
