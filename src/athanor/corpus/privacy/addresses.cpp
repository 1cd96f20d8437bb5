#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "athanor/corpus/privacy/matchers.h"

namespace athanor::corpus::privacy {

namespace addresses_local {

bool local_part(char c) {
  return ascii_word(c) || is_one_of(c, ".%+-'");
}

// What looks like a top-level domain but ends the name of a file: "logo@2x.png".
bool file_suffix(std::string_view suffix) {
  static constexpr std::array<std::string_view, 16> kSuffixes = {"bmp", "css",  "gif",  "html", "ico", "jpeg",
                                                                 "jpg", "js",   "json", "pdf",  "png", "svg",
                                                                 "ttf", "webp", "woff", "xml"};
  return std::find(kSuffixes.begin(), kSuffixes.end(), suffix) != kSuffixes.end();
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// The special-purpose registry of IANA (RFC 6890) and multicast.
bool public_ipv4(const std::array<int, 4>& part) {
  const int a = part[0], b = part[1], c = part[2];
  if (a == 0 || a == 10 || a == 127 || a >= 224) return false;
  if (a == 100 && b >= 64 && b < 128) return false;
  if (a == 169 && b == 254) return false;
  if (a == 172 && b >= 16 && b < 32) return false;
  if (a == 192 && (b == 168 || (b == 0 && (c == 0 || c == 2)))) return false;
  if (a == 198 && (b == 18 || b == 19 || (b == 51 && c == 100))) return false;
  return !(a == 203 && b == 0 && c == 113);
}

bool ends_with_version_word(std::string_view before) {
  while (!before.empty()) {
    if (is_one_of(before.back(), " :=#(.\"'"))
      before.remove_suffix(1);
    else if (before.ends_with("：") || before.ends_with("（"))
      before.remove_suffix(3);
    else
      break;
  }
  static constexpr std::array<std::string_view, 8> kWords = {"v",   "ver",   "version", "versions",
                                                             "rev", "build", "release", "section"};
  for (const std::string_view word : kWords)
    if (before.ends_with(word) && !ascii_letter(byte_before(before, before.size() - word.size())))
      return true;
  return before.ends_with("版本") || before.ends_with("版本号") || before.ends_with("§");
}

}  // namespace addresses_local

std::string context_before(std::string_view text, size_t at, size_t bytes) {
  size_t begin = at > bytes ? at - bytes : 0;
  for (size_t i = at; i > begin; --i)
    if (text[i - 1] == '\n') begin = i;
  return addresses_local::lower(text.substr(begin, at - begin));
}

Span match_email(std::string_view text, size_t at_sign, const RE2& domain) {
  size_t begin = at_sign;
  while (begin > 0 && at_sign - begin <= 64 && addresses_local::local_part(text[begin - 1])) --begin;
  if (at_sign - begin > 64) return {};
  while (begin < at_sign && is_one_of(text[begin], ".-'%+")) ++begin;
  if (begin == at_sign || text[at_sign - 1] == '.' ||
      text.substr(begin, at_sign - begin).find("..") != text.npos)
    return {};
  const std::string_view window = text.substr(at_sign + 1, 254);
  re2::StringPiece found;
  if (!domain.Match({window.data(), window.size()}, 0, window.size(), RE2::ANCHOR_START, &found, 1))
    return {};
  const size_t end = at_sign + 1 + found.size();
  if (ascii_word(byte_at(text, end)) || byte_at(text, end) == '@') return {};
  if (byte_at(text, end) == ':' && text.substr(begin, at_sign - begin) == "git")
    return {};  // of a repository
  const std::string_view name = text.substr(at_sign + 1, found.size());
  if (addresses_local::file_suffix(addresses_local::lower(name.substr(name.rfind('.') + 1)))) return {};
  return {begin, end};
}

size_t match_ipv4(std::string_view text, size_t at, bool also_private) {
  std::array<int, 4> parts = {};
  size_t end = at;
  for (size_t part = 0; part < 4; ++part) {
    if (part > 0 && byte_at(text, end++) != '.') return 0;
    const size_t begin = end;
    while (end - begin < 3 && ascii_digit(byte_at(text, end)))
      parts[part] = parts[part] * 10 + (text[end++] - '0');
    if (end == begin || parts[part] > 255 || (end - begin > 1 && text[begin] == '0')) return 0;
  }
  const char next = byte_at(text, end);
  if (ascii_word(next) || (next == '.' && ascii_word(byte_at(text, end + 1)))) return 0;
  if (next == '-' && ascii_word(byte_at(text, end + 1))) return 0;  // 1.2.3.4-beta
  if (!also_private && !addresses_local::public_ipv4(parts)) return 0;
  const char before = byte_before(text, at);
  if (ascii_word(before) || before == '.') return 0;
  if (is_one_of(before, "/-_") && ascii_word(byte_before(text, at - 1))) return 0;  // Browser/1.2.3.4
  return addresses_local::ends_with_version_word(context_before(text, at, 24)) ? 0 : end;
}

Span match_ipv6(std::string_view text, size_t colon, bool also_private) {
  const auto part = [](char c) {
    return ascii_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':' || c == '.';
  };
  size_t begin = colon, end = colon;
  while (begin > 0 && colon - begin < 48 && part(text[begin - 1])) --begin;
  while (end < text.size() && end - begin < 96 && part(text[end])) ++end;
  if (text[begin] == ':' && byte_at(text, begin + 1) != ':') ++begin;  // "address:2400::1"
  if (ascii_word(byte_before(text, begin)) || ascii_word(byte_at(text, end))) return {};
  while (end > begin && text[end - 1] == '.') --end;
  if (end - begin > 45) return {};
  if (end - begin > 2 && text[end - 1] == ':' && text[end - 2] != ':') --end;  // "from 2400::1: refused"
  const std::string address(text.substr(begin, end - begin));
  std::array<uint8_t, 16> bytes = {};
  if (std::count(address.begin(), address.end(), ':') < 2 ||
      inet_pton(AF_INET6, address.c_str(), bytes.data()) != 1)
    return {};
  if (std::none_of(address.begin(), address.end(), ascii_digit)) return {};  // a::b of a program
  const bool global = (bytes[0] & 0xE0) == 0x20;
  const bool example = (bytes[0] == 0x20 && bytes[1] == 0x01 && bytes[2] == 0x0D && bytes[3] == 0xB8) ||
                       (bytes[0] == 0x3F && bytes[1] == 0xFF && (bytes[2] & 0xF0) == 0);
  if (!also_private && (!global || example)) return {};
  return {begin, end};
}

}  // namespace athanor::corpus::privacy
