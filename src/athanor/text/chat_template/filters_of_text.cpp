#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>

#include "athanor/text/chat_template/filters.h"
#include "athanor/text/chat_template/json_text.h"
#include "athanor/text/chat_template/methods.h"
#include "athanor/text/unicode.h"

namespace athanor::text::chat_template {
namespace {

// What a filter of texts takes: anything, as it is shown.
MarkedText soft_text(const Value& value) {
  return value.shown();
}

Value upper(Evaluator& self, const Value& input, const Arguments& arguments) {
  self.bind("upper", arguments, {});
  return self.text(mapped_case(soft_text(input), true));
}

Value lower(Evaluator& self, const Value& input, const Arguments& arguments) {
  self.bind("lower", arguments, {});
  return self.text(mapped_case(soft_text(input), false));
}

Value capitalize(Evaluator& self, const Value& input, const Arguments& arguments) {
  self.bind("capitalize", arguments, {});
  return self.text(capitalized(soft_text(input)));
}

// Jinja's title: words begin behind white space and -({[<, their other letters are small.
Value title(Evaluator& self, const Value& input, const Arguments& arguments) {
  self.bind("title", arguments, {});
  const MarkedText text = soft_text(input);
  MarkedText out;
  bool begins = true;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text.bytes(), at);
    out += mapped_case(text.substr(at, c.size), begins);
    begins = is_space(c.value) ||
             (c.value < 0x80 &&
              std::string_view("-({[<").find(static_cast<char>(c.value)) != std::string_view::npos);
    at += c.size;
  }
  return self.text(std::move(out));
}

Value trim(Evaluator& self, const Value& input, const Arguments& arguments) {
  const auto bound = self.bind("trim", arguments, {"chars"});
  std::optional<std::string> characters;
  if (bound[0] && !bound[0]->is_none()) characters = self.need_text(*bound[0], "trim").bytes();
  return self.text(stripped(soft_text(input), characters, true, true));
}

Value string(Evaluator& self, const Value& input, const Arguments& arguments) {
  self.bind("string", arguments, {});
  return self.text(soft_text(input));
}

Value safe(Evaluator& self, const Value& input, const Arguments& arguments) {
  self.bind("safe", arguments, {});
  return input;
}

Value replace(Evaluator& self, const Value& input, const Arguments& arguments) {
  const auto bound = self.bind("replace", arguments, {"old", "new", "count"});
  if (!bound[0] || !bound[1]) self.fail("replace: expected two texts");
  const bool counts = bound[2] && !bound[2]->is_none();
  return self.text(replaced(self, soft_text(input), soft_text(*bound[0]), soft_text(*bound[1]),
                            counts ? self.need_integer(*bound[2], "replace") : -1));
}

Value indent(Evaluator& self, const Value& input, const Arguments& arguments) {
  const auto bound = self.bind("indent", arguments, {"width", "first", "blank"});
  MarkedText margin;
  if (bound[0] && bound[0]->text()) {
    margin = *bound[0]->text();
  } else {
    const int64_t width = bound[0] ? self.need_integer(*bound[0], "indent") : 4;
    if (width > 1000) self.fail(fmt::format("indent: got a width of {}, expected at most 1000", width));
    margin = MarkedText(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '));
  }
  const bool first = bound[1] && bound[1]->is_true(), blank = bound[2] && bound[2]->is_true();
  const MarkedText text = soft_text(input);
  MarkedText out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.bytes().find('\n', begin), text.size());
    const bool is_blank = end == begin;
    self.check_size(out.size() + margin.size());
    self.spend_bytes(32 + margin.size());
    if ((begin > 0 || first) && (blank || !is_blank || begin == 0)) out += margin;
    out += text.substr(begin, end - begin + 1);
    begin = end + 1;
  }
  return self.text(std::move(out));
}

Value tojson(Evaluator& self, const Value& input, const Arguments& arguments) {
  const auto bound = self.bind("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = bound[0] && bound[0]->is_true();
  if (bound[1] && bound[1]->text()) {
    style.margin = bound[1]->text()->bytes();
  } else if (bound[1] && !bound[1]->is_none()) {
    const int64_t width = self.need_integer(*bound[1], "tojson");
    if (width > 1000) self.fail(fmt::format("tojson: got an indent of {}, expected at most 1000", width));
    style.margin = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  if (style.margin) style.item_separator = ",";
  if (bound[2] && !bound[2]->is_none()) {
    const List separators = self.items_of(*bound[2], "tojson: separators");
    if (separators.size() != 2)
      self.fail(fmt::format("tojson: got {} separators, expected 2", separators.size()));
    style.item_separator = self.need_text(separators[0], "tojson: separators").bytes();
    style.key_separator = self.need_text(separators[1], "tojson: separators").bytes();
  }
  style.sort_keys = bound[3] && bound[3]->is_true();
  return self.text(json_text(self, input, style));
}

// The number in a text, as Python's int() reads it; none if it is not one.
std::optional<int64_t> integer_of(const MarkedText& text, int base) {
  const MarkedText bare = stripped(text, std::nullopt, true, true);
  std::string_view digits = bare.bytes();
  if (digits.starts_with('+')) digits.remove_prefix(1);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

std::optional<double> float_of(const MarkedText& text) {
  const MarkedText bare = stripped(text, std::nullopt, true, true);
  std::string_view digits = bare.bytes();
  if (digits.starts_with('+')) digits.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

Value to_int(Evaluator& self, const Value& input, const Arguments& arguments) {
  const auto bound = self.bind("int", arguments, {"default", "base"});
  Value otherwise = bound[0].value_or(Value(int64_t{0}));
  const int64_t base = bound[1] ? self.need_integer(*bound[1], "int") : 10;
  if (base < 2 || base > 36) self.fail(fmt::format("int: got a base of {}, expected 2 to 36", base));
  if (const auto* const b = input.get<bool>()) return Value(int64_t{*b ? 1 : 0});
  if (input.get<int64_t>()) return input;
  std::optional<double> number;
  if (const auto* const d = input.get<double>()) number = *d;
  if (input.text()) {
    if (const auto whole = integer_of(*input.text(), static_cast<int>(base))) return Value(*whole);
    number = float_of(*input.text());
  }
  if (!number || !(std::fabs(*number) < 9e18)) return otherwise;
  return Value(static_cast<int64_t>(*number));
}

Value to_float(Evaluator& self, const Value& input, const Arguments& arguments) {
  const auto bound = self.bind("float", arguments, {"default"});
  if (const auto* const b = input.get<bool>()) return Value(*b ? 1.0 : 0.0);
  if (const auto* const i = input.get<int64_t>()) return Value(static_cast<double>(*i));
  if (input.get<double>()) return input;
  const auto number = input.text() ? float_of(*input.text()) : std::nullopt;
  return number ? Value(*number) : bound[0].value_or(Value(0.0));
}

Value absolute(Evaluator& self, const Value& input, const Arguments& arguments) {
  self.bind("abs", arguments, {});
  if (const auto* const d = input.get<double>()) return Value(std::fabs(*d));
  const int64_t number = self.need_integer(input, "abs");
  if (number == INT64_MIN) self.fail("abs: the number does not fit into 64 bits");
  return Value(number < 0 ? -number : number);
}

Value round(Evaluator& self, const Value& input, const Arguments& arguments) {
  const auto bound = self.bind("round", arguments, {"precision", "method"});
  const int64_t precision = bound[0] ? self.need_integer(*bound[0], "round") : 0;
  const std::string method = bound[1] ? self.need_text(*bound[1], "round").bytes() : "common";
  if (precision < 0 || precision > 15)
    self.fail(fmt::format("round: got a precision of {}, expected 0 to 15", precision));
  const double number =
      input.get<double>() ? *input.get<double>() : static_cast<double>(self.need_integer(input, "round"));
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return Value(std::ceil(number * scale) / scale);
  if (method == "floor") return Value(std::floor(number * scale) / scale);
  if (method != "common")
    self.fail(fmt::format("round: got the method '{}', expected common, ceil or floor", method));
  if (!(std::fabs(number) < 1e17)) return Value(number);
  return Value(std::strtod(fmt::format("{:.{}f}", number, precision).c_str(), nullptr));
}

}  // namespace

Filter find_text_filter(std::string_view name) {
  static const std::map<std::string_view, Filter> filters = {{"abs", absolute},    {"capitalize", capitalize},
                                                             {"float", to_float},  {"indent", indent},
                                                             {"int", to_int},      {"lower", lower},
                                                             {"replace", replace}, {"round", round},
                                                             {"safe", safe},       {"string", string},
                                                             {"title", title},     {"tojson", tojson},
                                                             {"trim", trim},       {"upper", upper}};
  const auto found = filters.find(name);
  return found == filters.end() ? nullptr : found->second;
}

}  // namespace athanor::text::chat_template
