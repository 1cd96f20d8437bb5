// The single matchers of find_items.cpp. Private to corpus/privacy.
//
//   if (size_t end = match_ipv4(text, at, false)) items.push_back({at, end, ItemKind::ipv4});
//
// Each looks at a window of bounded length around `at` and returns an end, or a span whose end is 0 if there is none.
// Thread rule: pure functions; an object of patterns may be used from any thread.
#pragma once

#include <re2/re2.h>

#include <string>
#include <string_view>
#include <vector>

#include "athanor/corpus/privacy/find_items.h"

namespace athanor::corpus::privacy {

struct Span {
  size_t begin = 0;
  size_t end = 0;
};

inline bool ascii_digit(char c) {
  return c >= '0' && c <= '9';
}
inline bool ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
inline bool ascii_word(char c) {
  return ascii_digit(c) || ascii_letter(c) || c == '_';
}
inline char byte_at(std::string_view text, size_t at) {
  return at < text.size() ? text[at] : '\0';
}
inline char byte_before(std::string_view text, size_t at) {
  return at == 0 ? '\0' : text[at - 1];
}
inline bool is_one_of(char c, std::string_view set) {
  return set.find(c) != set.npos;
}
// Lower case of at most `bytes` bytes before `at`, from the same line.
std::string context_before(std::string_view text, size_t at, size_t bytes);

// addresses.cpp
Span match_email(std::string_view text, size_t at_sign, const RE2& domain);
size_t match_ipv4(std::string_view text, size_t at, bool also_private);   // at: the first digit
Span match_ipv6(std::string_view text, size_t colon, bool also_private);  // colon: any but the last one of it

// numbers.cpp; at: the first digit of a run
struct DomainPattern {
  RE2 domain{R"((?:[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,24})"};
};
struct NumberPatterns {
  RE2 international{R"(\+[1-9]\d{0,3}(?:[ .\-]?(?:\d{1,12}|\(\d{1,5}\))){1,6})"};
  RE2 north_american{R"((?:1[ .\-]?)?(?:\([2-9]\d\d\) ?|[2-9]\d\d[ .\-])[2-9]\d\d[ .\-]\d{4})"};
  RE2 chinese_mobile{R"((?:(?:\+|00)?86[ \-]?)?(1[3-9]\d)[ \-]?\d{4}[ \-]?\d{4})"};
  RE2 chinese_landline{
      R"((?:(?:\+|00)?86[ \-]?)?(?:\((?:010|02\d|0[3-9]\d\d)\) ?|(?:010|02\d|0[3-9]\d\d)[ \-]|（(?:010|02\d|0[3-9]\d\d)）)[2-8]\d{2,3}[ \-]?\d{4})"};
};
void match_phones(std::string_view text, size_t at, const NumberPatterns& patterns, std::vector<Item>& items);
size_t match_id_card(std::string_view text, size_t at);
size_t match_bank_card(std::string_view text, size_t at);
Span match_iban(std::string_view text, size_t at);  // at: the first check digit, behind the country

// secrets.cpp
struct SecretPatterns {
  RE2 token{
      R"((?:A(?:KIA|SIA)[A-Z2-7]{16}|gh[pousr]_[A-Za-z0-9]{36,251}|github_pat_[A-Za-z0-9_]{40,100}|glpat-[A-Za-z0-9_\-]{20,64}|xox[abprs]-[A-Za-z0-9\-]{20,120}|sk-[A-Za-z0-9_\-]{20,200}|AIza[A-Za-z0-9_\-]{35}))"};
  RE2 web_token{R"(eyJ[A-Za-z0-9_\-]{8,}\.eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{10,})"};
  RE2 name{
      R"((?i)(?:^|[^a-z])(?:api[_\-]?key|secret|(?:secret|access|auth|private|client|account)[_\-]?(?:access[_\-]?)?(?:key|token|secret)|passw(?:or)?d|pwd|token)["']?\s{0,4}$)"};
  RE2 value{R"([=:]>?\s{0,4}["']?([A-Za-z0-9+/_\-]{16,256}={0,2}))"};
};
// The token that the trigger byte `at` belongs to.
Span match_token(std::string_view text, size_t at, const SecretPatterns& patterns);
Span match_assignment(std::string_view text, size_t sign,
                      const SecretPatterns& patterns);  // sign: '=' or ':'
// at: the first '-' of "-----BEGIN". next_end: the next "-----END " at or behind `at`, looked up by the caller.
size_t match_private_key(std::string_view text, size_t at, size_t next_end);

}  // namespace athanor::corpus::privacy
