#include "athanor/text/unicode.h"

#include <fmt/core.h>
#include <unicode/uchar.h>

#include <array>

namespace athanor::text {
namespace {

bool is_tail(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80;
}

uint32_t tail(std::string_view text, size_t at) {
  return static_cast<uint8_t>(text[at]) & 0x3F;
}

CharClass class_by_table(uint32_t c) {
  if (c > 0x10FFFF) return CharClass::other;
  const auto code = static_cast<UChar32>(c);
  const uint32_t category = U_MASK(u_charType(code));
  if (category & U_GC_L_MASK) return CharClass::letter;
  if (category & U_GC_N_MASK) return CharClass::number;
  return u_isUWhiteSpace(code) ? CharClass::space : CharClass::other;
}

constexpr CharClass ascii_class(char c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CharClass::letter;
  if (c >= '0' && c <= '9') return CharClass::number;
  return c == ' ' || (c >= '\t' && c <= '\r') ? CharClass::space : CharClass::other;
}

constexpr auto kAsciiClasses = [] {
  std::array<CharClass, 128> classes{};
  for (size_t c = 0; c < classes.size(); ++c) classes[c] = ascii_class(static_cast<char>(c));
  return classes;
}();

uint32_t category_mask(uint32_t c) {
  return c > 0x10FFFF ? 0 : U_MASK(u_charType(static_cast<UChar32>(c)));
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
  return c < 128 ? kAsciiClasses[c] : class_by_table(c);
}

bool is_punctuation(uint32_t c) {
  if (c < 128) return c > ' ' && c < 0x7F && ascii_class(static_cast<char>(c)) == CharClass::other;
  return category_mask(c) & U_GC_P_MASK;
}

bool is_word(uint32_t c) {
  if (c > 0x10FFFF) return false;
  const auto code = static_cast<UChar32>(c);
  return u_isUAlphabetic(code) || (category_mask(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) ||
         u_hasBinaryProperty(code, UCHAR_JOIN_CONTROL);
}

bool is_mark(uint32_t c) {
  return category_mask(c) & U_GC_M_MASK;
}

bool is_nonspacing_mark(uint32_t c) {
  return category_mask(c) & U_GC_MN_MASK;
}

bool is_control(uint32_t c) {
  if (c == '\t' || c == '\n' || c == '\r' || c > 0x10FFFF) return false;
  return category_mask(c) & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK);
}

bool is_chinese(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

std::string describe_char(std::string_view bytes) {
  const CodePoint c = decode_utf8(bytes, 0);
  if (c.value == kInvalidByte) return fmt::format("byte 0x{:02X}", static_cast<uint8_t>(bytes[0]));
  if (!u_isgraph(static_cast<UChar32>(c.value))) return fmt::format("U+{:04X}", c.value);
  return fmt::format("'{}' (U+{:04X})", bytes.substr(0, c.size), c.value);
}

}  // namespace athanor::text
