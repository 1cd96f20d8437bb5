#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "athanor/text/chat_template/evaluator.h"

namespace athanor::text::chat_template {
namespace {

double to_double(const Value& value) {
  if (const auto* const b = value.get<bool>()) return *b ? 1 : 0;
  if (const auto* const i = value.get<int64_t>()) return static_cast<double>(*i);
  return *value.get<double>();
}

bool counts(const Value& value) {
  return value.is_number() || value.get<bool>();
}

// None if the result does not fit.
std::optional<int64_t> integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i) {
    if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    if (__builtin_mul_overflow(result, base, &result)) return std::nullopt;
  }
  return result;
}

// Rounds down, as Python does. The divisor is not 0.
std::optional<int64_t> floor_divide(int64_t a, int64_t b) {
  if (b == -1) return a == INT64_MIN ? std::nullopt : std::optional(-a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

std::optional<int64_t> integer_result(char symbol, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (symbol) {
    case '+':
      return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case '-':
      return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case '*':
      return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case '/':
      return floor_divide(a, b);
    case '%':
      return b == -1 ? 0 : a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
    default:
      return integer_power(a, b);
  }
}

}  // namespace

Value Evaluator::negated(const Value& value) {
  if (const auto* const d = value.get<double>()) return Value(-*d);
  const int64_t number = need_integer(value, "-");
  if (number == INT64_MIN) fail("-: the number does not fit into 64 bits");
  return Value(-number);
}

Value Evaluator::arithmetic(const std::string& symbol, const Value& left, const Value& right) {
  const bool divides = symbol == "/" || symbol == "//" || symbol == "%";
  if (divides && to_double(right) == 0) fail(fmt::format("{}: the divisor is 0", symbol));
  const bool is_float =
      left.get<double>() || right.get<double>() || symbol == "/" || (symbol == "**" && to_double(right) < 0);
  if (!is_float) {
    const auto result = integer_result(symbol == "**" ? '^' : symbol[0], need_integer(left, symbol),
                                       need_integer(right, symbol));
    if (!result) fail(fmt::format("{}: the result does not fit into 64 bits", symbol));
    return Value(*result);
  }
  const double a = to_double(left), b = to_double(right);
  if (symbol == "+") return Value(a + b);
  if (symbol == "-") return Value(a - b);
  if (symbol == "*") return Value(a * b);
  if (symbol == "/") return Value(a / b);
  if (symbol == "//") return Value(std::floor(a / b));
  if (symbol == "**") return Value(std::pow(a, b));
  const double rest = std::fmod(a, b);
  return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

Value Evaluator::binary(const std::string& symbol, const Value& left, const Value& right) {
  if (symbol == "~") {
    MarkedText joined = left.shown();
    joined += right.shown();
    return text(std::move(joined));
  }
  if (counts(left) && counts(right)) return arithmetic(symbol, left, right);
  if (symbol == "+" && left.text() && right.text()) {
    MarkedText joined = *left.text();
    joined += *right.text();
    return text(std::move(joined));
  }
  if (symbol == "+" && left.list() && right.list() && left.list()->is_tuple == right.list()->is_tuple) {
    List items = left.list()->items;
    items.insert(items.end(), right.list()->items.begin(), right.list()->items.end());
    return list(std::move(items), left.list()->is_tuple);
  }
  const bool left_repeats = left.text() || left.list(), right_repeats = right.text() || right.list();
  if (symbol == "*" && left_repeats != right_repeats && counts(left_repeats ? right : left)) {
    const Value& item = left_repeats ? left : right;
    const auto times =
        static_cast<size_t>(std::max<int64_t>(0, need_integer(left_repeats ? right : left, "*")));
    const size_t size = item.text() ? item.text()->size() : item.list()->items.size();
    if (size > 0 && times > limits_.text_bytes / size)
      fail(fmt::format("*: the result has more than {} items", limits_.text_bytes));
    spend(size * times / 16);
    if (item.text()) {
      MarkedText repeated;
      for (size_t i = 0; i < times && size > 0; ++i) repeated += *item.text();
      return text(std::move(repeated));
    }
    spend(size * times);
    List items;
    for (size_t i = 0; i < times && size > 0; ++i)
      items.insert(items.end(), item.list()->items.begin(), item.list()->items.end());
    return list(std::move(items), item.list()->is_tuple);
  }
  const auto shown = [](const Value& value) {
    const auto* const undefined = value.get<Undefined>();
    return undefined ? fmt::format("undefined ('{}')", undefined->what) : std::string(value.type_name());
  };
  fail(fmt::format("{}: got {} and {}, expected values that it takes", symbol, shown(left), shown(right)));
}

}  // namespace athanor::text::chat_template
