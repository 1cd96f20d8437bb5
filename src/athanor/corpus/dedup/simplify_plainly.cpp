// The rules of simplify.h as passes over the whole text.
#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/normalizer2.h>
#include <unicode/stringoptions.h>

#include "athanor/base/check.h"
#include "athanor/corpus/dedup/simplify.h"
#include "athanor/corpus/dedup/simplify_rules.h"
#include "athanor/text/unicode.h"

namespace athanor::corpus::dedup {
namespace {

std::string with_valid_utf8(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const text::CodePoint c = text::decode_utf8(text, at);
    if (c.value == text::kInvalidByte)
      out += "\xEF\xBF\xBD";
    else
      out += text.substr(at, c.size);
    at += c.size;
  }
  return out;
}

icu::StringPiece piece_of(const std::string& text) {
  return {text.data(), static_cast<int32_t>(text.size())};
}

// The root locale's: U+03A3 at the end of a word becomes U+03C2.
std::string lower_case(const std::string& text) {
  std::string out;
  UErrorCode status = U_ZERO_ERROR;
  icu::StringByteSink<std::string> sink(&out);
  icu::CaseMap::utf8ToLower("", 0, piece_of(text), sink, nullptr, status);
  base::check(U_SUCCESS(status), "unicode: lower case: {}", u_errorName(status));
  return out;
}

std::string with_plain_numbers(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const text::CodePoint c = text::decode_utf8(text, at);
    if (is_decimal_digit(c.value)) {
      out += '0';
      at = end_of_number(text, at);
    } else {
      out += text.substr(at, c.size);
      at += c.size;
    }
  }
  return out;
}

// Punctuation counts as white space.
std::string with_single_spaces(std::string_view text) {
  std::string out;
  bool waiting = false;
  for (size_t at = 0; at < text.size();) {
    const text::CodePoint c = text::decode_utf8(text, at);
    if (is_simple_space(c.value)) {
      waiting = !out.empty();
    } else {
      if (waiting) out += ' ';
      waiting = false;
      out += text.substr(at, c.size);
    }
    at += c.size;
  }
  return out;
}

std::string without_marks(const std::string& text) {
  std::string decomposed, out;
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfd = icu::Normalizer2::getNFDInstance(status);
  icu::StringByteSink<std::string> sink(&decomposed);
  if (U_SUCCESS(status)) nfd->normalizeUTF8(0, piece_of(text), sink, nullptr, status);
  base::check(U_SUCCESS(status), "unicode: NFD: {}", u_errorName(status));
  for (size_t at = 0; at < decomposed.size();) {
    const text::CodePoint c = text::decode_utf8(decomposed, at);
    if (!text::is_nonspacing_mark(c.value)) out.append(decomposed, at, c.size);
    at += c.size;
  }
  return out;
}

std::string simplify_piece(std::string_view text) {
  std::string out = without_marks(with_single_spaces(with_plain_numbers(lower_case(with_valid_utf8(text)))));
  const size_t first = out.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return out.substr(first, out.find_last_not_of(' ') + 1 - first);
}

// The end of a piece that the passes may take: behind a space, where there is one.
size_t end_of_piece(std::string_view text, size_t most_bytes) {
  if (text.size() <= most_bytes) return text.size();
  const size_t space = text.find_last_of(" \n", most_bytes - 1);
  if (space != std::string_view::npos) return space + 1;
  while (most_bytes > 1 && (static_cast<uint8_t>(text[most_bytes]) & 0xC0) == 0x80) --most_bytes;
  return most_bytes;
}

}  // namespace

std::string simplify_plainly(std::string_view text) {
  constexpr size_t kMostBytes = size_t{1} << 28;  // passes may triple it, and ICU counts in 31 bits
  std::string out;
  while (!text.empty()) {
    const size_t end = end_of_piece(text, kMostBytes);
    const std::string piece = simplify_piece(text.substr(0, end));
    if (!out.empty() && !piece.empty()) out += ' ';
    out += piece;
    text.remove_prefix(end);
  }
  return out;
}

}  // namespace athanor::corpus::dedup
