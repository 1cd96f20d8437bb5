#include "athanor/corpus/heuristics/sentences.h"

#include <algorithm>
#include <array>

#include "athanor/corpus/heuristics/char_kinds.h"
#include "athanor/text/unicode.h"

namespace athanor::corpus::heuristics {
namespace {

constexpr auto kClosingMarks = std::to_array<uint32_t>(
    {'"', '\'', ')', ']', '}', 0xBB, 0x2019, 0x201D, 0x300B, 0x300D, 0x300F, 0x3011, 0xFF09});

bool is_closing_mark(uint32_t c) {
  return std::find(kClosingMarks.begin(), kClosingMarks.end(), c) != kClosingMarks.end();
}

}  // namespace

uint32_t count_sentences(std::string_view line) {
  uint32_t sentences = 0;
  bool filled = false;  // something but spaces since the last end
  for (size_t at = 0; at < line.size();) {
    text::CodePoint c = text::decode_utf8(line, at);
    at += c.size;
    const uint8_t kind = kind_of(c.value);
    filled = filled || !(kind & kSpace);
    if (!(kind & kTerminal)) continue;
    uint32_t last_mark = c.value;
    bool marks = true;
    while (at < line.size()) {
      c = text::decode_utf8(line, at);
      marks = marks && kind_of(c.value) & kTerminal;
      if (marks)
        last_mark = c.value;
      else if (!is_closing_mark(c.value))
        break;
      at += c.size;
    }
    if (at == line.size() || kind_of(c.value) & kSpace || last_mark >= 128) {
      ++sentences;
      filled = false;
    }
  }
  return sentences + (filled ? 1 : 0);
}

}  // namespace athanor::corpus::heuristics
