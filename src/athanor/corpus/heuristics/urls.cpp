#include "athanor/corpus/heuristics/urls.h"

#include "athanor/corpus/heuristics/char_kinds.h"

namespace athanor::corpus::heuristics {
namespace {

bool is_hex_digit(std::string_view text, size_t at) {
  if (at >= text.size()) return false;
  const char c = text[at];
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

size_t url_char_size(std::string_view text, size_t at) {
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte >= 128) return 0;
  if (byte == '%') return is_hex_digit(text, at + 1) && is_hex_digit(text, at + 2) ? 3 : 0;
  if (!(kAsciiKinds[byte] & (kPunctuation | kSpace))) return 1;
  return byte != 0 && std::string_view("$-_@.&+/:=?#~!*(),").find(text[at]) != std::string_view::npos ? 1 : 0;
}

}  // namespace

uint64_t url_bytes(std::string_view text) {
  uint64_t bytes = 0;
  for (size_t begin = text.find("http"); begin != std::string_view::npos;) {
    size_t at = begin + 4;
    if (at < text.size() && text[at] == 's') ++at;
    if (text.substr(at).starts_with("://")) {
      at += 3;
      const size_t first = at;
      while (at < text.size()) {
        const size_t size = url_char_size(text, at);
        if (size == 0) break;
        at += size;
      }
      if (at > first) bytes += at - begin;
    }
    begin = text.find("http", at);
  }
  return bytes;
}

}  // namespace athanor::corpus::heuristics
