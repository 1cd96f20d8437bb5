#include <algorithm>
#include <array>
#include <cmath>

#include "athanor/corpus/privacy/matchers.h"

namespace athanor::corpus::privacy {

namespace secrets_local {

bool token_byte(char c) {
  return ascii_word(c) || c == '-';
}

// Shannon entropy in bits a character: 2 for "abcd" repeated, about 3.5 for 32 random hexadecimal digits.
double entropy(std::string_view text) {
  std::array<int, 128> counts = {};
  for (const char c : text) ++counts[static_cast<unsigned char>(c) & 127];
  double bits = 0.0;
  const auto total = static_cast<double>(text.size());
  for (const int count : counts)
    if (count > 0) bits -= count / total * std::log2(count / total);
  return bits;
}

// A name of a program has few digits and one case; a random value has both cases and a digit, or many digits.
bool random_enough(std::string_view value) {
  long digits = 0, upper = 0, lower = 0;
  for (const char c : value) {
    digits += ascii_digit(c) ? 1 : 0;
    upper += c >= 'A' && c <= 'Z' ? 1 : 0;
    lower += c >= 'a' && c <= 'z' ? 1 : 0;
  }
  const bool mixed = digits >= 1 && upper >= 1 && lower >= 1;
  const bool dotted_with_digits = digits >= 3 && upper + lower >= 3;
  return (mixed || dotted_with_digits) && entropy(value) >= 3.0;
}

Span whole_token(std::string_view text, size_t begin, const RE2& pattern, size_t limit) {
  if (token_byte(byte_before(text, begin))) return {};
  const std::string_view window = text.substr(begin, limit);
  re2::StringPiece found;
  if (!pattern.Match({window.data(), window.size()}, 0, window.size(), RE2::ANCHOR_START, &found, 1))
    return {};
  const size_t end = begin + found.size();
  return ascii_word(byte_at(text, end)) ? Span{} : Span{begin, end};
}

}  // namespace secrets_local

Span match_token(std::string_view text, size_t at, const SecretPatterns& patterns) {
  struct Mark {
    std::string_view prefix;
    size_t offset;  // of the trigger byte in it
  };
  // One byte of each prefix is a trigger: a rare one.
  static constexpr std::array<Mark, 16> kMarks = {{{"AKIA", 1},
                                                   {"ASIA", 1},
                                                   {"AIza", 2},
                                                   {"ghp_", 3},
                                                   {"gho_", 3},
                                                   {"ghu_", 3},
                                                   {"ghs_", 3},
                                                   {"ghr_", 3},
                                                   {"github_pat_", 6},
                                                   {"glpat-", 5},
                                                   {"sk-", 2},
                                                   {"xoxb-", 4},
                                                   {"xoxp-", 4},
                                                   {"xoxa-", 4},
                                                   {"xoxr-", 4},
                                                   {"xoxs-", 4}}};
  for (const Mark& mark : kMarks)
    if (mark.prefix[mark.offset] == text[at] && at >= mark.offset &&
        text.substr(at - mark.offset, mark.prefix.size()) == mark.prefix)
      return secrets_local::whole_token(text, at - mark.offset, patterns.token, 320);
  if (text[at] == 'J' && at >= 2 && text.substr(at - 2, 3) == "eyJ")
    return secrets_local::whole_token(text, at - 2, patterns.web_token, 16500);
  return {};
}

Span match_assignment(std::string_view text, size_t sign, const SecretPatterns& patterns) {
  size_t last = sign;
  while (last > 0 && sign - last < 6 && is_one_of(text[last - 1], " \t\"'")) --last;
  if (!ascii_letter(byte_before(text, last))) return {};
  // The names end in one of "yntdNTYD".
  if (!is_one_of(text[last - 1], "yntdYNTD")) return {};
  const std::string_view before = text.substr(sign > 40 ? sign - 40 : 0, sign > 40 ? 40 : sign);
  if (!RE2::PartialMatch({before.data(), before.size()}, patterns.name)) return {};
  const std::string_view window = text.substr(sign, 300);
  std::array<re2::StringPiece, 2> groups;
  if (!patterns.value.Match({window.data(), window.size()}, 0, window.size(), RE2::ANCHOR_START,
                            groups.data(), 2))
    return {};
  const std::string_view value(groups[1].data(), groups[1].size());
  const auto begin = static_cast<size_t>(value.data() - text.data());
  const char next = byte_at(text, begin + value.size());
  if (is_one_of(next, "([.{") && !is_one_of(byte_at(text, begin + value.size() + 1), " \n\r\"'\0"))
    return {};  // code
  if (ascii_word(next) || !secrets_local::random_enough(value)) return {};
  return {begin, begin + value.size()};
}

size_t match_private_key(std::string_view text, size_t at, size_t next_end) {
  constexpr std::string_view kBegin = "-----BEGIN ", kEnd = "-----END ";
  if (text.substr(at, kBegin.size()) != kBegin) return 0;
  const std::string_view head = text.substr(at, 80);
  const size_t dashes = head.find("-----", kBegin.size());
  if (dashes == head.npos || head.substr(0, dashes).find("PRIVATE KEY") == head.npos ||
      head.substr(0, dashes).find('\n') != head.npos)
    return 0;
  size_t end = at + dashes + 5;
  constexpr size_t kLongest = 32768;  // a longer stretch is not one key
  if (next_end != text.npos && next_end > at && next_end - at <= kLongest) {
    const std::string_view tail = text.substr(next_end + kEnd.size(), 80);
    const size_t close = tail.find("-----");
    if (close != tail.npos) return next_end + kEnd.size() + close + 5;
  }
  // Cut off before its end: all that can belong to it.
  while (end < text.size() && (ascii_word(text[end]) || is_one_of(text[end], "+/=\r\n"))) ++end;
  return end;
}

}  // namespace athanor::corpus::privacy
