#include <algorithm>
#include <array>

#include "athanor/corpus/privacy/matchers.h"

namespace athanor::corpus::privacy {

namespace numbers_local {

re2::StringPiece piece(std::string_view text) {
  return {text.data(), text.size()};
}

// Part of a longer number, a decimal or a name: "12-555-...", "3.1415", "a123", "$123".
bool joined_before(std::string_view text, size_t at) {
  const char before = byte_before(text, at);
  if (ascii_word(before) || is_one_of(before, "$%")) return true;
  if (is_one_of(before, ".-,+:") && at >= 2 && ascii_digit(text[at - 2])) return true;
  if (before == '.' || (before == '-' && at >= 2 && ascii_letter(text[at - 2]))) return true;
  const std::string_view head = text.substr(0, at);
  return head.ends_with("¥") || head.ends_with("￥") || head.ends_with("€") || head.ends_with("£");
}

bool joined_behind(std::string_view text, size_t end) {
  const char next = byte_at(text, end);
  if (ascii_word(next) || next == '%') return true;
  if (is_one_of(next, ".-,:+/=") && ascii_word(byte_at(text, end + 1)) && next != '/') return true;
  const std::string_view rest = text.substr(end, 4);
  return rest.starts_with("元") || rest.starts_with("万") || rest.starts_with("亿") ||
         rest.starts_with(" 元");
}

bool contains_any(const std::string& text, const auto& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.find(word) != std::string::npos; });
}

// Words that say that a number is of another kind.
bool other_number(const std::string& before) {
  static constexpr std::array<std::string_view, 16> kWords = {
      "isbn", "issn", "doi",    "order", "serial", "barcode", "timestamp", "订单",
      "单号", "编号", "流水号", "条码",  "序列号", "时间戳",  "invoice",   "sku"};
  return contains_any(before, kWords) || before.ends_with("#") || before.ends_with("# ");
}

bool phone_word(const std::string& before) {
  static constexpr std::array<std::string_view, 9> kWords = {"phone", "tel", "call",  "mobile", "cell",
                                                             "fax",   "sms", "text ", "电话"};
  return contains_any(before, kWords);
}

// The prefixes that the operators of China have been given.
bool mobile_prefix(std::string_view three) {
  const char second = three[1], third = three[2];
  switch (second) {
    case '4':
      return third == '0' || third == '1' || third >= '4';
    case '5':
      return third != '4';
    case '6':
      return third == '2' || (third >= '5' && third <= '7');
    case '7':
      return third != '9';
    case '9':
      return third != '4';
    default:
      return true;  // 13, 18
  }
}

int count_digits(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), ascii_digit));
}

bool luhn(std::string_view digits) {
  int sum = 0;
  bool twice = false;
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit, twice = !twice) {
    const int value = (*digit - '0') * (twice ? 2 : 1);
    sum += value > 9 ? value - 9 : value;
  }
  return sum % 10 == 0;
}

bool card_prefix(std::string_view digits) {
  const auto head = [&](size_t count) { return std::stoi(std::string(digits.substr(0, count))); };
  const int two = head(2), three = head(3), four = head(4);
  switch (digits.size()) {
    case 14:
      return two == 36 || two == 38 || two == 39 || (three >= 300 && three <= 305);
    case 15:
      return two == 34 || two == 37;
    case 16:
      return digits[0] == '4' || (two >= 51 && two <= 55) || (four >= 2221 && four <= 2720) || four == 6011 ||
             two == 65 || (three >= 644 && three <= 649) || (four >= 3528 && four <= 3589) || two == 62;
    case 17:
    case 18:
      return two == 62;
    case 19:
      return two == 62 || digits[0] == '4' || four == 9558 || four == 9559;
    default:
      return false;
  }
}

struct IbanLength {
  std::string_view country;
  size_t length;
};
// The IBAN registry of SWIFT.
constexpr std::array<IbanLength, 78> kIbanLengths = {
    {{"AD", 24}, {"AE", 23}, {"AL", 28}, {"AT", 20}, {"AZ", 28}, {"BA", 20}, {"BE", 16}, {"BG", 22},
     {"BH", 22}, {"BR", 29}, {"BY", 28}, {"CH", 21}, {"CR", 22}, {"CY", 28}, {"CZ", 24}, {"DE", 22},
     {"DK", 18}, {"DO", 28}, {"EE", 20}, {"EG", 29}, {"ES", 24}, {"FI", 18}, {"FO", 18}, {"FR", 27},
     {"GB", 22}, {"GE", 22}, {"GI", 23}, {"GL", 18}, {"GR", 27}, {"GT", 28}, {"HR", 21}, {"HU", 28},
     {"IE", 22}, {"IL", 23}, {"IQ", 23}, {"IS", 26}, {"IT", 27}, {"JO", 30}, {"KW", 30}, {"KZ", 20},
     {"LB", 28}, {"LC", 32}, {"LI", 21}, {"LT", 20}, {"LU", 20}, {"LV", 21}, {"LY", 25}, {"MC", 27},
     {"MD", 24}, {"ME", 22}, {"MK", 19}, {"MR", 27}, {"MT", 31}, {"MU", 30}, {"NL", 18}, {"NO", 15},
     {"PK", 24}, {"PL", 28}, {"PS", 29}, {"PT", 25}, {"QA", 29}, {"RO", 24}, {"RS", 22}, {"RU", 33},
     {"SA", 24}, {"SC", 31}, {"SD", 18}, {"SE", 24}, {"SI", 19}, {"SK", 24}, {"SM", 27}, {"ST", 25},
     {"SV", 28}, {"TL", 23}, {"TN", 24}, {"TR", 26}, {"UA", 29}, {"VA", 22}}};

}  // namespace numbers_local

namespace {

bool match_phone_at(std::string_view text, size_t begin, size_t at, const NumberPatterns& patterns,
                    std::vector<Item>& items) {
  using namespace numbers_local;
  if (joined_before(text, begin)) return false;
  const std::string_view window = text.substr(begin, 40);
  const std::string before = context_before(text, begin, 24);
  if (other_number(before)) return false;
  if (byte_before(text, begin) == '/') {  // a path, or the second of two numbers
    const char further = begin >= 2 ? text[begin - 2] : ' ';
    if ((!ascii_digit(further) && further != ' ') || before.find("10.") != std::string::npos) return false;
  }
  bool any = false;
  const auto add = [&](size_t size) {
    if (joined_behind(text, begin + size)) return;
    items.push_back({begin, begin + size, ItemKind::phone});
    any = true;
  };
  re2::StringPiece found, prefix;
  const auto match = [&](const RE2& pattern) {
    std::array<re2::StringPiece, 2> groups;
    if (!pattern.Match(piece(window), 0, window.size(), RE2::ANCHOR_START, groups.data(),
                       std::min(1 + pattern.NumberOfCapturingGroups(), 2)))
      return false;
    found = groups[0];
    prefix = groups[1];
    return true;
  };
  if (window.starts_with('+') && match(patterns.international)) {
    const std::string_view number(found.data(), found.size());
    const int digits = count_digits(number);
    const bool decimal =
        std::count(number.begin(), number.end(), '.') == 1 && number.find_first_of(" -(") == number.npos;
    if (digits >= 8 && digits <= 15 && !decimal) add(number.size());
  }
  if (match(patterns.chinese_mobile) && mobile_prefix({prefix.data(), prefix.size()})) add(found.size());
  if (match(patterns.chinese_landline)) add(found.size());
  if (window.starts_with('+')) return any;
  if (match(patterns.north_american)) {
    const std::string_view number(found.data(), found.size());
    // Three numbers in a row are a phone only if something says so: a bracket, a hyphen, a dot or a word.
    // A dot and a hyphen in one are a paragraph of a law: "252.227-7013".
    const bool paragraph = number.find('.') != number.npos && number.find('-') != number.npos;
    if (!paragraph && (number.find_first_of("(-.") != number.npos || phone_word(before))) add(number.size());
  }
  size_t run = 0;
  while (run < 12 && ascii_digit(byte_at(text, at + run))) ++run;
  if (run == 10 && begin == at && text[at] >= '2' && text[at + 3] >= '2' && phone_word(before)) add(10);
  return any;
}

}  // namespace

void match_phones(std::string_view text, size_t at, const NumberPatterns& patterns,
                  std::vector<Item>& items) {
  size_t begin = at;
  if (byte_before(text, at) == '(' || byte_before(text, at) == '+')
    begin = at - 1;
  else if (text.substr(0, at).ends_with("（"))
    begin = at - 3;
  const bool found = match_phone_at(text, begin, at, patterns, items);
  // The bracket may be around the number and not of it: "(0755-54333075)".
  if (!found && begin != at && text[begin] != '+') match_phone_at(text, at, at, patterns, items);
}

size_t match_id_card(std::string_view text, size_t at) {
  using namespace numbers_local;
  const std::string_view card = text.substr(at, 18);
  if (card.size() < 18 || ascii_word(byte_before(text, at)) || ascii_word(byte_at(text, at + 18))) return 0;
  if (!std::all_of(card.begin(), card.begin() + 17, ascii_digit)) return 0;
  const auto number = [&](size_t from, size_t count) {
    return std::stoi(std::string(card.substr(from, count)));
  };
  const int province = number(0, 2), year = number(6, 4), month = number(10, 2), day = number(12, 2);
  if (!(province >= 11 && province <= 82 && province % 10 <= 7) || province % 10 == 0) return 0;
  if (year < 1900 || year > 2099 || month < 1 || month > 12 || day < 1 || day > 31) return 0;
  static constexpr std::array<int, 17> kWeights = {7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2};
  int sum = 0;
  for (size_t i = 0; i < 17; ++i) sum += (card[i] - '0') * kWeights[i];
  const char expected = "10X98765432"[sum % 11];
  return card[17] == expected || (expected == 'X' && card[17] == 'x') ? at + 18 : 0;
}

size_t match_bank_card(std::string_view text, size_t at) {
  using namespace numbers_local;
  if (joined_before(text, at)) return 0;
  std::string digits;
  std::vector<size_t> groups = {0};
  char separator = '\0';
  size_t end = at;
  for (; end < text.size() && digits.size() < 20; ++end) {
    const char c = text[end];
    if (ascii_digit(c)) {
      digits.push_back(c);
      ++groups.back();
    } else if ((c == ' ' || c == '-') && (separator == '\0' || separator == c) &&
               ascii_digit(byte_at(text, end + 1)) && (groups.back() == 4 || groups.back() == 6)) {
      separator = c;
      groups.push_back(0);
    } else {
      break;
    }
  }
  if (digits.size() < 14 || digits.size() > 19) return 0;
  if (groups.size() > 1) {
    const bool fours =
        groups.size() >= 4 && std::all_of(groups.begin(), groups.end() - 1, [](size_t n) { return n == 4; });
    const bool american = groups.size() == 3 && groups[0] == 4 && groups[1] == 6;
    const bool two =
        groups.size() == 2 && groups[0] == 6 && groups[1] == 13;  // as cards of UnionPay are printed
    if (!fours && !american && !two) return 0;
  }
  if (joined_behind(text, end) || !card_prefix(digits) || !luhn(digits)) return 0;
  return other_number(context_before(text, at, 24)) ? 0 : end;
}

Span match_iban(std::string_view text, size_t at) {
  using namespace numbers_local;
  const auto upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (at < 2 || !upper(text[at - 1]) || !upper(text[at - 2]) || !ascii_digit(byte_at(text, at + 1)))
    return {};
  const size_t begin = at - 2;
  if (ascii_word(byte_before(text, begin))) return {};
  const std::string_view country = text.substr(begin, 2);
  const auto entry = std::find_if(kIbanLengths.begin(), kIbanLengths.end(),
                                  [&](const IbanLength& known) { return known.country == country; });
  if (entry == kIbanLengths.end()) return {};
  std::string compact;
  size_t end = begin;
  for (; end < text.size() && compact.size() < entry->length; ++end) {
    const char c = text[end];
    if (upper(c) || ascii_digit(c))
      compact.push_back(c);
    else if (c != ' ' || compact.size() % 4 != 0)
      return {};
  }
  if (compact.size() != entry->length || ascii_word(byte_at(text, end))) return {};
  std::rotate(compact.begin(), compact.begin() + 4, compact.end());
  int remainder = 0;
  for (const char c : compact)
    remainder = ascii_digit(c) ? (remainder * 10 + (c - '0')) % 97 : (remainder * 100 + (c - 'A' + 10)) % 97;
  return remainder == 1 ? Span{begin, end} : Span{};
}

}  // namespace athanor::corpus::privacy
