// UTF-8, and the classes of Unicode characters that tokenizers use, by Unicode 16.0 whatever is installed (unicode/).
//
//   for (size_t at = 0; at < text.size();) { const CodePoint c = decode_utf8(text, at); at += c.size; }
//
// Text may hold any bytes: a byte that belongs to no valid UTF-8 sequence decodes as kInvalidByte with size 1.
// kInvalidByte is in no class, so every splitter treats it as "some other symbol" and no byte is lost. Thread rule:
// pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::text {

constexpr uint32_t kInvalidByte = 0xFFFFFFFF;

struct CodePoint {
  uint32_t value;
  uint32_t size;  // bytes
};

CodePoint decode_utf8(std::string_view text, size_t at);
void append_utf8(std::string& out, uint32_t code_point);
// The offset of the first byte that is not UTF-8; npos if all bytes are.
size_t find_invalid_utf8(std::string_view text);
int64_t count_code_points(std::string_view text);

enum class CharClass : uint8_t { other, letter, number, space };
CharClass char_class(uint32_t code_point);  // \p{L}, \p{N}, White_Space

inline bool is_letter(uint32_t c) {
  return char_class(c) == CharClass::letter;
}
inline bool is_number(uint32_t c) {
  return char_class(c) == CharClass::number;
}
inline bool is_space(uint32_t c) {
  return char_class(c) == CharClass::space;
}
bool is_punctuation(uint32_t code_point);  // ASCII punctuation and \p{P}
// The same by Unicode 8.0, which Hugging Face's BERT components keep to: published ids depend on it.
bool is_punctuation_of_bert(uint32_t code_point);
bool is_word(uint32_t code_point);  // \w as UTS #18 has it
bool is_mark(uint32_t code_point);  // Mn, Mc, Me
bool is_nonspacing_mark(uint32_t code_point);
bool is_nonspacing_mark_of_bert(uint32_t code_point);  // of Unicode 8.0
bool is_control_of_bert(
    uint32_t code_point);  // Cc, Cf, Co of Unicode 8.0, without tab, line feed, carriage return
uint32_t lowercase_of(uint32_t code_point);  // the simple mapping; itself where there is none
bool is_chinese(
    uint32_t
        code_point);  // the ideographs that BERT makes single words: not U+2B820 to U+2B91F, as in its library

// "'x'" where it can be shown, and its number: for error messages.
std::string describe_char(std::string_view bytes);

}  // namespace athanor::text
