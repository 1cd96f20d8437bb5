#include "athanor/text/pre_tokenizers/word_scanner.h"

#include "athanor/text/pre_tokenizers/part_scanner.h"
#include "athanor/text/pre_tokenizers/scanning.h"
#include "athanor/text/unicode.h"
#include "athanor/text/unicode/properties.h"

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

constexpr std::string_view kO200kRegex =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kNemoRegex =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

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
  if (first.kind == CharClass::number) return digits_end(text, at, max_digits);
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

// What a character may be in a word of o200k: of its capitals, of its small letters, of both, or of neither.
enum class Case : uint8_t { none, capital, small, both };

struct CasedChar {
  Case letter;
  uint32_t size;
};

CasedChar cased_char_at(std::string_view text, size_t at) {
  const CodePoint c = decode_utf8(text, at);
  if (c.value < 128) {
    const bool is_capital = c.value >= 'A' && c.value <= 'Z', is_small = c.value >= 'a' && c.value <= 'z';
    return {is_capital ? Case::capital : is_small ? Case::small : Case::none, 1};
  }
  switch (const unicode::Category category = unicode::category(c.value)) {
    case unicode::Category::uppercase_letter:
    case unicode::Category::titlecase_letter:
      return {Case::capital, c.size};
    case unicode::Category::lowercase_letter:
      return {Case::small, c.size};
    default:
      return {unicode::is_letter(category) || unicode::is_mark(category) ? Case::both : Case::none, c.size};
  }
}

struct CasedWord {
  size_t end;          // of [capital or both]*[small or both]+; 0 where there is none
  size_t capital_end;  // of the run of capitals and of both
};

// Where small letters follow the run of capitals, the word ends with them. Else the expression goes back to the last
// character of the run that is of both.
CasedWord cased_word(std::string_view text, size_t at) {
  size_t end = 0;
  while (at < text.size()) {
    const CasedChar c = cased_char_at(text, at);
    if (c.letter == Case::none) break;
    if (c.letter == Case::small) {
      while (at < text.size()) {
        const CasedChar small = cased_char_at(text, at);
        if (small.letter != Case::small && small.letter != Case::both) break;
        at += small.size;
      }
      return {at, at};
    }
    at += c.size;
    if (c.letter == Case::both) end = at;
  }
  return {end, at};
}

// The end of a word of letters that starts at `at`, perhaps behind one character of another kind; 0 where there is none.
size_t cased_letters_end(std::string_view text, size_t at) {
  const Char first = char_at(text, at);
  if (first.kind == CharClass::letter) {
    const CasedWord word = cased_word(text, at);
    return word.end > 0 ? word.end : word.capital_end;
  }
  if (first.kind == CharClass::number || is_line_end(text[at])) return 0;
  const size_t next = at + first.size;
  const CasedWord word = cased_word(text, next);
  if (word.end > 0) return word.end;
  // A mark is the one character of another kind that may be a letter of its own word.
  if (cased_char_at(text, at).letter == Case::both) return next;
  return word.capital_end > next ? word.capital_end : 0;
}

size_t o200k_end(std::string_view text, size_t at, int max_digits, bool has_contractions) {
  if (const size_t end = cased_letters_end(text, at); end > 0) {
    const bool may_go_on = has_contractions && end < text.size() && text[end] == '\'';
    return may_go_on ? end + contraction(text, end, true) : end;
  }
  const Char first = char_at(text, at);
  if (first.kind == CharClass::number) return digits_end(text, at, max_digits);
  const size_t next = at + first.size;
  const CharClass next_kind = next < text.size() ? char_at(text, next).kind : CharClass::space;
  if (first.kind == CharClass::other || (text[at] == ' ' && next_kind == CharClass::other)) {
    size_t end = skip(text, next, CharClass::other);
    while (end < text.size() && (is_line_end(text[end]) || text[end] == '/')) ++end;
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
    case WordPattern::o200k:
      return o200k_end(text, at, 3, true);
    case WordPattern::nemo:
      return o200k_end(text, at, 1, false);
    case WordPattern::deepseek_digits:
      return deepseek_digits_end(text, at);
    case WordPattern::deepseek_cjk:
      return deepseek_cjk_end(text, at);
    case WordPattern::deepseek_words:
      return deepseek_words_end(text, at);
  }
  return text.size();
}

std::string_view regex_of(WordPattern pattern) {
  switch (pattern) {
    case WordPattern::gpt2:
      return kGpt2Regex;
    case WordPattern::cl100k:
      return kCl100kRegex;
    case WordPattern::qwen2:
      return kQwen2Regex;
    case WordPattern::o200k:
      return kO200kRegex;
    case WordPattern::nemo:
      return kNemoRegex;
    case WordPattern::deepseek_digits:
      return kDeepseekDigitsRegex;
    case WordPattern::deepseek_cjk:
      return kDeepseekCjkRegex;
    case WordPattern::deepseek_words:
      return kDeepseekWordsRegex;
  }
  return {};
}

std::optional<WordPattern> known_pattern(std::string_view regex) {
  if (regex == kGpt2GroupedRegex) return WordPattern::gpt2;
  for (const WordPattern pattern :
       {WordPattern::gpt2, WordPattern::cl100k, WordPattern::qwen2, WordPattern::o200k, WordPattern::nemo,
        WordPattern::deepseek_digits, WordPattern::deepseek_cjk, WordPattern::deepseek_words})
    if (regex == regex_of(pattern)) return pattern;
  return std::nullopt;
}

bool leaves_gaps(WordPattern pattern) {
  return pattern == WordPattern::deepseek_digits || pattern == WordPattern::deepseek_cjk ||
         pattern == WordPattern::deepseek_words;
}

}  // namespace athanor::text::pre_tokenizers
