#include "athanor/text/pre_tokenizers/word_scanner.h"

#include "athanor/text/unicode.h"

namespace athanor::text::pre_tokenizers {
namespace {

constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt2GroupedRegex =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCl100kRegex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Char {
  CharClass kind;
  uint32_t size;
};

Char char_at(std::string_view text, size_t at) {
  const CodePoint c = decode_utf8(text, at);
  return {char_class(c.value), c.size};
}

// The end of the run of one class that starts at `at`.
size_t skip(std::string_view text, size_t at, CharClass kind) {
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if (c.kind != kind) break;
    at += c.size;
  }
  return at;
}

// Bytes of 's 't 're 've 'm 'll 'd at the apostrophe; 0 where there is none of them.
size_t contraction(std::string_view text, size_t at, bool any_case) {
  const auto letter = [&](size_t i) -> char {
    if (at + i >= text.size()) return 0;
    const char c = text[at + i];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return letter(2) == 'e' ? 3 : 0;
    case 'l':
      return letter(2) == 'l' ? 3 : 0;
    default:
      // The long s folds to s where case is ignored.
      return any_case && text.substr(at + 1, 2) == "\u017F" ? 3 : 0;
  }
}

bool is_line_end(char c) {
  return c == '\r' || c == '\n';
}

// \s+(?!\S)|\s+ : the run, but its last space is left to the word that follows it.
size_t space_end(std::string_view text, size_t at, bool up_to_line_end) {
  size_t end = at, last = at, after_line_end = at;
  while (end < text.size()) {
    const Char c = char_at(text, end);
    if (c.kind != CharClass::space) break;
    last = end;
    end += c.size;
    if (is_line_end(text[last])) after_line_end = end;
  }
  if (up_to_line_end && after_line_end > at) return after_line_end;
  return end == text.size() || last == at ? end : last;
}

size_t gpt2_end(std::string_view text, size_t at) {
  if (text[at] == '\'')
    if (const size_t size = contraction(text, at, false)) return at + size;
  const Char first = char_at(text, at);
  if (first.kind != CharClass::space) return skip(text, at + first.size, first.kind);
  if (text[at] == ' ' && at + 1 < text.size()) {
    const Char next = char_at(text, at + 1);
    if (next.kind != CharClass::space) return skip(text, at + 1, next.kind);
  }
  return space_end(text, at, false);
}

size_t cl100k_end(std::string_view text, size_t at, int max_digits) {
  if (text[at] == '\'')
    if (const size_t size = contraction(text, at, true)) return at + size;
  const Char first = char_at(text, at);
  if (first.kind == CharClass::letter) return skip(text, at, CharClass::letter);
  if (first.kind == CharClass::number) {
    size_t end = at + first.size;
    for (int digits = 1; digits < max_digits && end < text.size(); ++digits) {
      const Char c = char_at(text, end);
      if (c.kind != CharClass::number) break;
      end += c.size;
    }
    return end;
  }
  const size_t next = at + first.size;
  const CharClass next_kind = next < text.size() ? char_at(text, next).kind : CharClass::space;
  if (next_kind == CharClass::letter && !is_line_end(text[at])) return skip(text, next, CharClass::letter);
  if (first.kind == CharClass::other || (text[at] == ' ' && next_kind == CharClass::other)) {
    size_t end = skip(text, next, CharClass::other);
    while (end < text.size() && is_line_end(text[end])) ++end;
    return end;
  }
  return space_end(text, at, true);
}

}  // namespace

size_t word_end(WordPattern pattern, std::string_view text, size_t at) {
  switch (pattern) {
    case WordPattern::gpt2:
      return gpt2_end(text, at);
    case WordPattern::cl100k:
      return cl100k_end(text, at, 3);
    case WordPattern::qwen2:
      return cl100k_end(text, at, 1);
  }
  return text.size();
}

std::string_view regex_of(WordPattern pattern) {
  if (pattern == WordPattern::gpt2) return kGpt2Regex;
  return pattern == WordPattern::cl100k ? kCl100kRegex : kQwen2Regex;
}

std::optional<WordPattern> known_pattern(std::string_view regex) {
  if (regex == kGpt2Regex || regex == kGpt2GroupedRegex) return WordPattern::gpt2;
  if (regex == kCl100kRegex) return WordPattern::cl100k;
  if (regex == kQwen2Regex) return WordPattern::qwen2;
  return std::nullopt;
}

}  // namespace athanor::text::pre_tokenizers
