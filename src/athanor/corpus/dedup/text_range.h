// A part of a text: the bytes [begin, end).
//
//   const TextRange inner = trimmed(text, {0, 12});  // without white space at its ends
//
// Thread rule: plain data and pure functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>

#include "athanor/text/unicode.h"

namespace athanor::corpus::dedup {

struct TextRange {
  uint32_t begin = 0, end = 0;
  bool operator==(const TextRange&) const = default;
  bool operator<(const TextRange& other) const {
    return std::tie(begin, end) < std::tie(other.begin, other.end);
  }
  uint32_t size() const { return end - begin; }
  std::string_view of(std::string_view text) const { return text.substr(begin, end - begin); }
};

// White space is Unicode's. A range of nothing else becomes an empty one at its end.
TextRange trimmed(std::string_view text, TextRange range);

// Of the character that ends at range.end; the range is not empty. A byte that is not UTF-8 is one by itself.
text::CodePoint last_code_point(std::string_view text, TextRange range);

}  // namespace athanor::corpus::dedup
