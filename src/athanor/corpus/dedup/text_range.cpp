#include "athanor/corpus/dedup/text_range.h"

namespace athanor::corpus::dedup {

text::CodePoint last_code_point(std::string_view text, TextRange range) {
  constexpr uint32_t kMostBytes = 4;
  uint32_t at = range.end - 1;
  while (at > range.begin && range.end - at < kMostBytes && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80)
    --at;
  const text::CodePoint c = text::decode_utf8(text.substr(0, range.end), at);
  if (at + c.size == range.end) return c;
  return {text::kInvalidByte, 1};
}

TextRange trimmed(std::string_view text, TextRange range) {
  while (range.begin < range.end) {
    const text::CodePoint c = text::decode_utf8(text.substr(0, range.end), range.begin);
    if (!text::is_space(c.value)) break;
    range.begin += c.size;
  }
  while (range.begin < range.end) {
    const text::CodePoint c = last_code_point(text, range);
    if (!text::is_space(c.value)) break;
    range.end -= c.size;
  }
  return range;
}

}  // namespace athanor::corpus::dedup
