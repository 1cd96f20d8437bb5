// Walks over the pieces of a text: what stands between two spaces (text_view.h).
//
//   for_each_piece(line, [&](size_t begin, size_t end, uint8_t kinds) { ++words; });
//
// kinds: those of all characters of the piece together (char_kinds.h). Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "athanor/corpus/heuristics/char_kinds.h"
#include "athanor/text/unicode.h"

namespace athanor::corpus::heuristics {

template <typename Sink>
void for_each_piece(std::string_view text, Sink&& sink) {
  const size_t size = text.size();
  for (size_t at = 0; at < size;) {
    const size_t begin = at;
    uint8_t kinds = 0;
    size_t step = 1;
    for (; at < size; at += step) {
      const auto byte = static_cast<uint8_t>(text[at]);
      uint8_t kind = 0;
      step = 1;
      if (byte < 128) {
        kind = kAsciiKinds[byte];
      } else {
        const text::CodePoint c = text::decode_utf8(text, at);
        kind = wide_kind_of(c.value);
        step = c.size;
      }
      if (kind & kSpace) break;
      kinds = static_cast<uint8_t>(kinds | kind);
    }
    if (at > begin) sink(begin, at, kinds);
    if (at < size) at += step;  // the space
  }
}

}  // namespace athanor::corpus::heuristics
