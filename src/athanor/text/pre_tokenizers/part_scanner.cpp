#include "athanor/text/pre_tokenizers/part_scanner.h"

#include <array>

#include "athanor/text/pre_tokenizers/scanning.h"
#include "athanor/text/unicode/properties.h"

namespace athanor::text::pre_tokenizers {
namespace {

// The kinds of characters that the third expression tells apart.
enum class Kind : uint8_t { letter, mark, symbol, space, other };

Kind find_kind(uint32_t c) {
  if (c == kInvalidByte) return Kind::symbol;  // as U+FFFD, which stands for it
  const unicode::Category category = unicode::category(c);
  if (unicode::is_letter(category)) return Kind::letter;
  if (unicode::is_mark(category)) return Kind::mark;
  const bool is_symbol =
      category >= unicode::Category::math_symbol && category <= unicode::Category::other_symbol;
  if (is_symbol || unicode::is_punctuation(category)) return Kind::symbol;
  return is_space(c) ? Kind::space : Kind::other;
}

struct KindedChar {
  Kind kind;
  uint32_t size;
};

KindedChar kinded_char_at(std::string_view text, size_t at) {
  static const auto ascii = [] {
    std::array<Kind, 128> kinds{};
    for (uint32_t c = 0; c < kinds.size(); ++c) kinds[c] = find_kind(c);
    return kinds;
  }();
  const CodePoint c = decode_utf8(text, at);
  return {c.value < ascii.size() ? ascii[c.value] : find_kind(c.value), c.size};
}

template <typename Belongs>
size_t run_end(std::string_view text, size_t at, const Belongs& belongs) {
  while (at < text.size()) {
    const KindedChar c = kinded_char_at(text, at);
    if (!belongs(c.kind)) break;
    at += c.size;
  }
  return at;
}

bool is_of_word(Kind kind) {
  return kind == Kind::letter || kind == Kind::mark;
}

bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

size_t symbols_end(std::string_view text, size_t at) {
  at = run_end(text, at, [](Kind kind) { return kind == Kind::symbol; });
  while (at < text.size() && is_line_end(text[at])) ++at;
  return at;
}

// The end of the third expression's match at `at`; `at` itself where there is none.
size_t match_end(std::string_view text, size_t at) {
  const KindedChar first = kinded_char_at(text, at);
  const size_t next = at + first.size;
  if (is_of_word(first.kind)) return run_end(text, next, is_of_word);
  if (first.kind == Kind::symbol) {
    if (static_cast<uint8_t>(text[at]) >= 0x80 || next == text.size() || !is_ascii_letter(text[next]))
      return symbols_end(text, next);
    size_t end = next;
    while (end < text.size() && is_ascii_letter(text[end])) ++end;
    return end;
  }
  const Kind next_kind = next < text.size() ? kinded_char_at(text, next).kind : Kind::other;
  if (is_of_word(next_kind) && !is_line_end(text[at])) return run_end(text, next, is_of_word);
  if (text[at] == ' ' && next_kind == Kind::symbol) return symbols_end(text, next);
  return first.kind == Kind::space ? space_end(text, at, true) : at;
}

bool is_cjk(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
}

}  // namespace

size_t deepseek_digits_end(std::string_view text, size_t at) {
  if (const size_t end = digits_end(text, at, 3); end > at) return end;
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if (c.kind == CharClass::number) break;
    at += c.size;
  }
  return at;
}

size_t deepseek_cjk_end(std::string_view text, size_t at) {
  const bool begins_inside = is_cjk(decode_utf8(text, at).value);
  while (at < text.size()) {
    const CodePoint c = decode_utf8(text, at);
    if (is_cjk(c.value) != begins_inside) break;
    at += c.size;
  }
  return at;
}

size_t deepseek_words_end(std::string_view text, size_t at) {
  if (const size_t end = match_end(text, at); end > at) return end;
  while (at < text.size() && match_end(text, at) == at) at += decode_utf8(text, at).size;
  return at;
}

}  // namespace athanor::text::pre_tokenizers
