#include "athanor/documents/json_syntax.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace athanor::documents {
namespace {

// Listens to a parse and keeps nothing but where it failed.
class FaultListener : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fault_ = position > 0 ? position - 1 : 0;
    return false;
  }
  std::optional<size_t> fault() const { return fault_; }

 private:
  std::optional<size_t> fault_;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_number_byte(char c) {
  return is_digit(c) || c == '.' || c == '+' || c == '-' || c == 'e' || c == 'E';
}

// -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
bool is_json_number(std::string_view word) {
  size_t at = word.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const size_t from = at;
    while (at < word.size() && is_digit(word[at])) ++at;
    return at > from;
  };
  if (at < word.size() && word[at] == '0')
    ++at;
  else if (!digits())
    return false;
  if (at < word.size() && word[at] == '.') {
    ++at;
    if (!digits()) return false;
  }
  if (at < word.size() && (word[at] == 'e' || word[at] == 'E')) {
    ++at;
    if (at < word.size() && (word[at] == '+' || word[at] == '-')) ++at;
    if (!digits()) return false;
  }
  return at == word.size();
}

// The number that four hexadecimal digits behind \u write, -1 where they do not.
int escaped_unit(std::string_view text, size_t backslash) {
  if (backslash + 6 > text.size() || text[backslash + 1] != 'u') return -1;
  int unit = 0;
  for (size_t i = backslash + 2; i < backslash + 6; ++i) {
    const char c = text[i];
    const int digit = is_digit(c)            ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

}  // namespace

size_t JsonExtent::take(std::string_view piece) {
  for (size_t i = 0; i < piece.size(); ++i) {
    const char c = piece[i];
    if (in_string_) {
      if (escaped_)
        escaped_ = false;
      else if (c == '\\')
        escaped_ = true;
      else if (c == '"')
        in_string_ = false;
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
      started_ = true;
    } else if ((c == '}' || c == ']') && --depth_ <= 0) {
      return i + 1;
    }
  }
  return piece.size();
}

std::optional<size_t> json_fault(std::string_view text) {
  std::string numberless(text);
  blank_json_numbers(numberless.data(), numberless.size());
  FaultListener listener;
  nlohmann::json::sax_parse(numberless, &listener);
  const auto fault = listener.fault();
  return fault ? std::optional(std::min(*fault, text.size())) : std::nullopt;
}

void blank_json_numbers(char* text, size_t size_bytes) {
  bool in_string = false;
  for (size_t i = 0; i < size_bytes; ++i) {
    if (in_string && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string && (is_digit(text[i]) || text[i] == '-')) {
      char* const first = text + i;
      char* const last = std::find_if_not(first, text + size_bytes, is_number_byte);
      i = static_cast<size_t>(last - text) - 1;
      if (!is_json_number({first, static_cast<size_t>(last - first)})) continue;
      std::fill(first, last, ' ');
      *first = '0';
    }
  }
}

std::vector<size_t> lone_surrogates(std::string_view text) {
  std::vector<size_t> lone;
  for (size_t i = text.find('\\'); i != std::string_view::npos && i + 1 < text.size();
       i = text.find('\\', i)) {
    const int unit = escaped_unit(text, i);
    if (unit < 0xD800 || unit > 0xDFFF) {
      i += 2;
      continue;
    }
    const bool pair = unit < 0xDC00 && i + 6 < text.size() && text[i + 6] == '\\' &&
                      escaped_unit(text, i + 6) >= 0xDC00 && escaped_unit(text, i + 6) <= 0xDFFF;
    if (!pair) lone.push_back(i);
    i += pair ? 12 : 6;
  }
  return lone;
}

}  // namespace athanor::documents
