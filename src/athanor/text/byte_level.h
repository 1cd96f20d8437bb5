// Byte-level encoding of GPT-2: every byte is written as a printable character. A printable Latin-1 byte stands for
// itself; the other bytes become U+0100, U+0101, ... in order. So a space is "Ġ" and a line feed "Ċ". Thread rule: pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"
#include "athanor/text/normalized_text.h"

namespace athanor::text {

uint32_t char_of_byte(uint8_t byte);
std::optional<uint8_t> byte_of_char(uint32_t code_point);

std::string bytes_to_chars(std::string_view bytes);
void bytes_to_chars(NormalizedText& text);
// nullopt if a character stands for no byte.
std::optional<std::string> chars_to_bytes(std::string_view chars);

}  // namespace athanor::text
