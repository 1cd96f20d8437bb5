#include "athanor/text/chat_template/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "athanor/base/error.h"
#include "athanor/text/unicode.h"

namespace athanor::text::chat_template {
namespace {

constexpr std::string_view kSpace = " \t\n\r\v\f";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

std::string with_plain_line_ends(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      out += source[at];
      continue;
    }
    out += '\n';
    if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& name)
      : source_(with_plain_line_ends(source)), name_(name) {}

  std::vector<LexerToken> run() {
    while (at_ < source_.size()) {
      const size_t tag = next_tag();
      put_text(tag);
      if (tag == std::string::npos) break;
      const char kind = source_[tag + 1];
      go_to(tag + 2);
      if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) go_to(at_ + 1);
      if (kind == '#')
        skip_comment();
      else if (kind == '%' && !take_raw())
        take_tag(TokenKind::block_begin, TokenKind::block_end, '%');
      else if (kind == '{')
        take_tag(TokenKind::output_begin, TokenKind::output_end, '}');
    }
    tokens_.push_back({TokenKind::end, "", line_});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { fail_at(name_, line_, message); }

  void go_to(size_t end) {
    end = std::min(end, source_.size());
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  size_t next_tag() const {
    for (size_t tag = source_.find('{', at_); tag != std::string::npos; tag = source_.find('{', tag + 1))
      if (tag + 1 < source_.size() &&
          (source_[tag + 1] == '{' || source_[tag + 1] == '%' || source_[tag + 1] == '#'))
        return tag;
    return std::string::npos;
  }

  // The text up to a tag, without what the tag takes of it.
  void put_text(size_t tag) {
    std::string_view text = std::string_view(source_).substr(at_, tag == std::string::npos ? tag : tag - at_);
    if (tag != std::string::npos) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      if (sign == '-') {
        text = text.substr(0, text.find_last_not_of(kSpace) + 1);
      } else if (sign != '+' && source_[tag + 1] != '{') {
        const size_t line_begin = text.rfind('\n') + 1;
        if ((line_begin > 0 || at_line_start_) &&
            text.find_first_not_of(kSpace, line_begin) == std::string_view::npos)
          text = text.substr(0, line_begin);
      }
    }
    if (!text.empty()) tokens_.push_back({TokenKind::text, std::string(text), line_});
    go_to(tag);
  }

  // Behind the closing of a tag: what it takes of the text that follows.
  void close(char sign, bool takes_line_end) {
    if (sign == '-')
      go_to(std::min(source_.find_first_not_of(kSpace, at_), source_.size()));
    else if (sign != '+' && takes_line_end && at_ < source_.size() && source_[at_] == '\n')
      go_to(at_ + 1);
    at_line_start_ = source_[at_ - 1] == '\n';
  }

  void skip_comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail("a comment {# is never closed, expected #}");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    go_to(end + 2);
    close(sign, true);
  }

  // A tag "WORD" and no more, from `at` behind its opening; sets where its closing begins and ends.
  bool is_word_tag(size_t at, std::string_view word, size_t& end, char& sign) const {
    at = std::min(source_.find_first_not_of(kSpace, at), source_.size());
    if (source_.compare(at, word.size(), word) != 0) return false;
    at = std::min(source_.find_first_not_of(kSpace, at + word.size()), source_.size());
    sign = at < source_.size() ? source_[at] : '\0';
    if (sign == '-' || sign == '+') ++at;
    end = at + 2;
    return source_.compare(at, 2, "%}") == 0;
  }

  bool take_raw() {
    size_t end = 0;
    char sign = '\0';
    if (!is_word_tag(at_, "raw", end, sign)) return false;
    const int begin_line = line_;
    go_to(end);
    close(sign, true);
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos; tag = source_.find("{%", tag + 2)) {
      const bool has_sign = tag + 2 < source_.size() && (source_[tag + 2] == '-' || source_[tag + 2] == '+');
      if (!is_word_tag(tag + (has_sign ? 3 : 2), "endraw", end, sign)) continue;
      put_text(tag);
      go_to(end);
      close(sign, true);
      return true;
    }
    fail_at(name_, begin_line, "{% raw %} is never closed, expected {% endraw %}");
  }

  void take_tag(TokenKind begin, TokenKind end, char closing) {
    const int begin_line = line_;
    tokens_.push_back({begin, "", line_});
    std::string brackets;
    while (true) {
      go_to(std::min(source_.find_first_not_of(kSpace, at_), source_.size()));
      if (at_ == source_.size())
        fail_at(name_, begin_line, fmt::format("a tag is never closed, expected {}}}", closing));
      const char sign = source_[at_] == '-' || source_[at_] == '+' ? source_[at_] : '\0';
      const size_t to = at_ + (sign ? 1 : 0);
      if (brackets.empty() && to + 1 < source_.size() && source_[to] == closing && source_[to + 1] == '}' &&
          !(sign == '+' && closing == '}')) {
        tokens_.push_back({end, "", line_});
        go_to(to + 2);
        return close(sign, closing == '%');
      }
      const char c = source_[at_];
      if (starts_name(c))
        take_name();
      else if (is_digit(c))
        take_number();
      else if (c == '\'' || c == '"')
        take_string(c);
      else
        take_symbol(brackets);
    }
  }

  void take_name() {
    size_t end = at_;
    while (end < source_.size() && (starts_name(source_[end]) || is_digit(source_[end]))) ++end;
    put(TokenKind::name, end);
  }

  void take_number() {
    const auto digits = [&](size_t from) {
      while (from < source_.size() && (is_digit(source_[from]) || (source_[from] == '_' && from > at_)))
        ++from;
      return from;
    };
    size_t end = digits(at_);
    bool is_float = false;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      end = digits(end + 1);
      is_float = true;
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const size_t sign =
          end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-') ? 1 : 0;
      if (end + 1 + sign < source_.size() && is_digit(source_[end + 1 + sign])) {
        end = digits(end + 1 + sign);
        is_float = true;
      }
    }
    put(is_float ? TokenKind::number : TokenKind::integer, end);
    std::erase(tokens_.back().text, '_');
  }

  void put(TokenKind kind, size_t end) {
    tokens_.push_back({kind, source_.substr(at_, end - at_), line_});
    go_to(end);
  }

  void take_string(char quote) {
    const int begin_line = line_;
    std::string value;
    go_to(at_ + 1);
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] == '\\')
        take_escape(value);
      else
        value += source_[at_];
      go_to(at_ + 1);
    }
    if (at_ >= source_.size()) fail_at(name_, begin_line, "a string is never closed");
    go_to(at_ + 1);
    tokens_.push_back({TokenKind::string, std::move(value), begin_line});
  }

  // As Python reads escapes: an unknown one stays as it is. Leaves at_ at its last byte.
  void take_escape(std::string& value) {
    if (at_ + 1 >= source_.size()) return;
    go_to(at_ + 1);
    const char c = source_[at_];
    constexpr std::string_view kFrom = "nrtabfv\\'\"", kTo = "\n\r\t\a\b\f\v\\'\"";
    if (const size_t known = kFrom.find(c); known != std::string_view::npos) {
      value += kTo[known];
      return;
    }
    if (c == '\n') return;  // a line that goes on
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0) return take_code_point(value, at_ + 1, digits, 16);
    if (c >= '0' && c <= '7') {
      size_t size = 1;
      while (size < 3 && at_ + size < source_.size() && source_[at_ + size] >= '0' &&
             source_[at_ + size] <= '7')
        ++size;
      return take_code_point(value, at_, size, 8);
    }
    value += '\\';
    value += c;
  }

  void take_code_point(std::string& value, size_t from, size_t size, int base) {
    uint32_t code_point = 0;
    const char* const begin = source_.data() + std::min(from, source_.size());
    const char* const end = source_.data() + std::min(from + size, source_.size());
    if (std::from_chars(begin, end, code_point, base).ptr != begin + size || code_point > 0x10FFFF ||
        (code_point >= 0xD800 && code_point <= 0xDFFF))
      fail("a string has a broken escape, expected \\xHH, \\uHHHH or \\UHHHHHHHH of a character");
    append_utf8(value, code_point);
    go_to(from + size - 1);
  }

  void take_symbol(std::string& brackets) {
    static constexpr std::array<std::string_view, 26> kSymbols = {
        "**", "//", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", ">",
        "<",  "=",  "(",  ")",  "[",  "]",  "{", "}", ",", ".", ":", "|", ";"};
    for (const std::string_view symbol : kSymbols) {
      if (source_.compare(at_, symbol.size(), symbol) != 0) continue;
      if (symbol == "(" || symbol == "[" || symbol == "{") brackets += symbol;
      if (symbol == ")" || symbol == "]" || symbol == "}") {
        const char opening = symbol == ")" ? '(' : symbol == "]" ? '[' : '{';
        if (brackets.empty() || brackets.back() != opening) fail(fmt::format("'{}' closes nothing", symbol));
        brackets.pop_back();
      }
      return put(TokenKind::symbol, at_ + symbol.size());
    }
    const CodePoint c = decode_utf8(source_, at_);
    fail(fmt::format("got {}, expected an expression",
                     describe_char(std::string_view(source_).substr(at_, c.size))));
  }

  std::string source_;
  const std::string& name_;
  std::vector<LexerToken> tokens_;
  size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;
};

}  // namespace

void fail_at(const std::string& name, int line, const std::string& message) {
  throw Error(fmt::format("{} line {}: {}", name, line, message));
}

std::vector<LexerToken> cut_into_tokens(std::string_view source, const std::string& name) {
  if (source.size() > kMaxTemplateBytes)
    throw Error(fmt::format("{}: got a template of {} bytes, expected at most {}", name, source.size(),
                            kMaxTemplateBytes));
  if (const size_t bad = find_invalid_utf8(source); bad != std::string_view::npos)
    throw Error(fmt::format("{}: the template is not UTF-8 at byte {}", name, bad));
  return Lexer(source, name).run();
}

}  // namespace athanor::text::chat_template
