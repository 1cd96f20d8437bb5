#include "athanor/text/byte_level.h"

#include <array>

#include "athanor/text/unicode.h"

namespace athanor::text {
namespace {

constexpr bool is_printable(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr auto kChars = [] {
  std::array<uint16_t, 256> chars{};
  uint16_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte)
    chars[byte] = is_printable(byte) ? static_cast<uint16_t>(byte) : next++;
  return chars;
}();

constexpr size_t kNumChars = 0x100 + 68;  // 68 bytes are not printable

constexpr auto kBytes = [] {
  std::array<int16_t, kNumChars> bytes{};
  for (auto& byte : bytes) byte = -1;
  for (uint32_t byte = 0; byte < 256; ++byte) bytes[kChars[byte]] = static_cast<int16_t>(byte);
  return bytes;
}();

}  // namespace

uint32_t char_of_byte(uint8_t byte) {
  return kChars[byte];
}

std::optional<uint8_t> byte_of_char(uint32_t c) {
  if (c >= kNumChars || kBytes[c] < 0) return std::nullopt;
  return static_cast<uint8_t>(kBytes[c]);
}

std::string bytes_to_chars(std::string_view bytes) {
  std::string chars;
  chars.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(chars, kChars[static_cast<uint8_t>(byte)]);
  return chars;
}

void bytes_to_chars(NormalizedText& text) {
  Rewriter rewriter(text);
  std::string written;
  while (!rewriter.done()) {
    const std::string bytes(rewriter.rest().substr(0, decode_utf8(rewriter.rest(), 0).size));
    for (size_t i = 0; i < bytes.size(); ++i) {
      written.clear();
      append_utf8(written, kChars[static_cast<uint8_t>(bytes[i])]);
      rewriter.put(written, i == 0 ? 0 : 1);
    }
  }
  rewriter.finish();
}

std::optional<std::string> chars_to_bytes(std::string_view chars) {
  std::string bytes;
  for (size_t at = 0; at < chars.size();) {
    const CodePoint c = decode_utf8(chars, at);
    const auto byte = byte_of_char(c.value);
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
    at += c.size;
  }
  return bytes;
}

}  // namespace athanor::text
