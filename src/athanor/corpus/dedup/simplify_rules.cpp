#include "athanor/corpus/dedup/simplify_rules.h"

#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include "athanor/base/check.h"
#include "athanor/text/unicode.h"

namespace athanor::corpus::dedup {
namespace {

constexpr uint32_t kCapitalSigma = 0x3A3;
constexpr uint32_t kCapitalDottedI = 0x130;

bool is_decimal_mark(uint32_t c) {
  return c == '.' || c == ',' || c == 0x60C || c == 0x66B || (c >= 0x2396 && c <= 0x2398);
}

size_t end_of_digits(std::string_view text, size_t at) {
  while (at < text.size()) {
    const text::CodePoint c = text::decode_utf8(text, at);
    if (!is_decimal_digit(c.value)) break;
    at += c.size;
  }
  return at;
}

// The lower case of c in canonical decomposition, without nonspacing marks.
icu::UnicodeString images(uint32_t c) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfd = icu::Normalizer2::getNFDInstance(status);
  base::check(U_SUCCESS(status) && nfd != nullptr, "unicode: ICU has no NFD: {}", u_errorName(status));
  // The lower case of U+0130 is an i and a mark, which goes.
  const UChar32 lower = c == kCapitalDottedI ? 'i' : u_tolower(static_cast<UChar32>(c));
  icu::UnicodeString decomposed, kept;
  if (!nfd->getDecomposition(lower, decomposed)) decomposed = lower;
  for (int32_t at = 0; at < decomposed.length(); at = decomposed.moveIndex32(at, 1)) {
    const UChar32 part = decomposed.char32At(at);
    if (!text::is_nonspacing_mark(static_cast<uint32_t>(part))) kept += part;
  }
  return kept;
}

}  // namespace

bool is_simple_space(uint32_t c) {
  if (c < 0x20 || (c >= 0x7F && c < 0xA0) || text::is_space(c) || text::is_punctuation(c)) return true;
  return c == 0xB4 || c == 0x2236 || c == 0x2501 || c == 0x25BA || c == 0xFF5E;
}

bool is_decimal_digit(uint32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return c <= 0x10FFFF && u_charType(static_cast<UChar32>(c)) == U_DECIMAL_DIGIT_NUMBER;
}

size_t end_of_number(std::string_view text, size_t at) {
  at = end_of_digits(text, at);
  if (at == text.size()) return at;
  const text::CodePoint mark = text::decode_utf8(text, at);
  if (!is_decimal_mark(mark.value)) return at;
  const size_t behind = end_of_digits(text, at + mark.size);
  return behind > at + mark.size ? behind : at;
}

uint32_t image_of(uint32_t c) {
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return kImageDepends;  // no character
  if (c == kCapitalSigma) return kImageDepends;  // its lower case at the end of a word is another
  if (is_decimal_digit(c)) return '0';
  if (is_simple_space(c)) return ' ';
  const icu::UnicodeString kept = images(c);
  for (int32_t at = 0; at < kept.length(); at = kept.moveIndex32(at, 1))
    if (u_getCombiningClass(kept.char32At(at)) != 0)
      return kImageDepends;  // it may change places with a neighbour
  if (kept.isEmpty()) return kImageDropped;
  return kept.countChar32() == 1 ? static_cast<uint32_t>(kept.char32At(0)) : kImageSeveral;
}

void append_images(uint32_t c, std::string& out) {
  const icu::UnicodeString kept = images(c);
  for (int32_t at = 0; at < kept.length(); at = kept.moveIndex32(at, 1))
    text::append_utf8(out, static_cast<uint32_t>(kept.char32At(at)));
}

}  // namespace athanor::corpus::dedup
