#include "athanor/text/unicode.h"

#include <fmt/core.h>

#include "athanor/text/unicode/ascii.h"
#include "athanor/text/unicode/properties.h"

namespace athanor::text {
namespace {

bool is_tail(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80;
}

uint32_t tail(std::string_view text, size_t at) {
  return static_cast<uint8_t>(text[at]) & 0x3F;
}

bool is_ascii_punctuation(uint32_t c) {
  return c > ' ' && c < 0x7F && unicode::ascii_class(static_cast<uint8_t>(c)) == CharClass::other;
}

}  // namespace

CodePoint decode_utf8(std::string_view text, size_t at) {
  const auto lead = static_cast<uint8_t>(text[at]);
  if (lead < 0x80) return {lead, 1};
  if (lead >= 0xC2 && lead <= 0xDF && is_tail(text, at + 1))
    return {(lead & 0x1Fu) << 6 | tail(text, at + 1), 2};
  if (lead >= 0xE0 && lead <= 0xEF && is_tail(text, at + 1) && is_tail(text, at + 2)) {
    const uint32_t c = (lead & 0x0Fu) << 12 | tail(text, at + 1) << 6 | tail(text, at + 2);
    if (c >= 0x800 && (c < 0xD800 || c > 0xDFFF)) return {c, 3};
  }
  if (lead >= 0xF0 && lead <= 0xF4 && is_tail(text, at + 1) && is_tail(text, at + 2) &&
      is_tail(text, at + 3)) {
    const uint32_t c =
        (lead & 0x07u) << 18 | tail(text, at + 1) << 12 | tail(text, at + 2) << 6 | tail(text, at + 3);
    if (c >= 0x10000 && c <= 0x10FFFF) return {c, 4};
  }
  return {kInvalidByte, 1};
}

void append_utf8(std::string& out, uint32_t c) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

size_t find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const CodePoint c = decode_utf8(text, at);
    if (c.value == kInvalidByte) return at;
    at += c.size;
  }
  return std::string_view::npos;
}

int64_t count_code_points(std::string_view text) {
  int64_t count = 0;
  for (size_t at = 0; at < text.size(); at += decode_utf8(text, at).size) ++count;
  return count;
}

CharClass char_class(uint32_t c) {
  return c < 128 ? unicode::ascii_class(static_cast<uint8_t>(c)) : unicode::class_of(c);
}

bool is_punctuation(uint32_t c) {
  return c < 128 ? is_ascii_punctuation(c) : unicode::is_punctuation(unicode::category(c));
}

bool is_punctuation_of_bert(uint32_t c) {
  return c < 128 ? is_ascii_punctuation(c) : unicode::is_punctuation(unicode::category_in_8(c));
}

bool is_word(uint32_t c) {
  const unicode::Category category = unicode::category(c);
  return unicode::is_alphabetic(c) || unicode::is_mark(category) ||
         category == unicode::Category::decimal_number ||
         category == unicode::Category::connector_punctuation || c == 0x200C ||
         c == 0x200D;  // the two join controls
}

bool is_mark(uint32_t c) {
  return unicode::is_mark(unicode::category(c));
}

bool is_nonspacing_mark(uint32_t c) {
  return unicode::category(c) == unicode::Category::nonspacing_mark;
}

bool is_nonspacing_mark_of_bert(uint32_t c) {
  return unicode::category_in_8(c) == unicode::Category::nonspacing_mark;
}

bool is_control_of_bert(uint32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  const unicode::Category category = unicode::category_in_8(c);
  return category == unicode::Category::control || category == unicode::Category::format ||
         category == unicode::Category::private_use;
}

uint32_t lowercase_of(uint32_t c) {
  return unicode::lowercase(c);
}

bool is_chinese(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

std::string describe_char(std::string_view bytes) {
  const CodePoint c = decode_utf8(bytes, 0);
  if (c.value == kInvalidByte) return fmt::format("byte 0x{:02X}", static_cast<uint8_t>(bytes[0]));
  if (!unicode::is_graphic(c.value)) return fmt::format("U+{:04X}", c.value);
  return fmt::format("'{}' (U+{:04X})", bytes.substr(0, c.size), c.value);
}

}  // namespace athanor::text
