#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "athanor/text/chat_template/filters.h"
#include "athanor/text/chat_template/parser.h"
#include "athanor/text/chat_template/tests.h"

namespace athanor::text::chat_template {
namespace {

constexpr int kMaxHeight = 400;

template <typename... Parts>
ExpressionPtr make(TokenReader& reader, ExpressionKind kind, int line, std::string text, Parts... parts) {
  auto node = std::make_unique<Expression>(Expression{.kind = kind, .line = line, .text = std::move(text)});
  (node->parts.push_back(std::move(parts)), ...);
  for (const ExpressionPtr& part : node->parts)
    if (part) node->height = std::max(node->height, part->height + 1);
  if (node->height > kMaxHeight)
    reader.fail(fmt::format("an expression has more than {} levels", kMaxHeight));
  return node;
}

void add_part(TokenReader& reader, Expression& node, ExpressionPtr part) {
  node.height = std::max(node.height, part->height + 1);
  if (node.height > kMaxHeight) reader.fail(fmt::format("an expression has more than {} levels", kMaxHeight));
  node.parts.push_back(std::move(part));
}

ExpressionPtr constant(TokenReader& reader, int line, Value value) {
  auto node = make(reader, ExpressionKind::constant, line, "");
  node->value = std::move(value);
  return node;
}

// Behind the opening bracket, up to and with the closing one.
void parse_arguments(TokenReader& reader, Expression& node) {
  while (!reader.skip_symbol(")")) {
    if (!node.arguments.empty()) {
      reader.expect_symbol(",");
      if (reader.skip_symbol(")")) return;
    }
    Argument argument;
    if (reader.skip_symbol("*")) {
      argument.stars = 1;
    } else if (reader.skip_symbol("**")) {
      argument.stars = 2;
    } else if (reader.is(TokenKind::name) && reader.ahead().kind == TokenKind::symbol &&
               reader.ahead().text == "=") {
      argument.name = reader.take().text;
      reader.take();
      for (const Argument& other : node.arguments)
        if (other.name == argument.name)
          reader.fail(fmt::format("the argument '{}' stands twice", argument.name));
    } else if (!node.arguments.empty() &&
               (!node.arguments.back().name.empty() || node.arguments.back().stars == 2)) {
      reader.fail("got an argument by position behind one by name");
    }
    argument.value = parse_expression(reader);
    node.height = std::max(node.height, argument.value->height + 1);
    if (node.height > kMaxHeight)
      reader.fail(fmt::format("an expression has more than {} levels", kMaxHeight));
    node.arguments.push_back(std::move(argument));
  }
}

ExpressionPtr parse_number(TokenReader& reader) {
  const LexerToken token = reader.take();
  if (token.kind == TokenKind::number)
    return constant(reader, token.line, Value(std::strtod(token.text.c_str(), nullptr)));
  int64_t number = 0;
  if (std::from_chars(token.text.data(), token.text.data() + token.text.size(), number).ec != std::errc())
    reader.fail(fmt::format("got {}, expected a number below 2^63", token.text));
  return constant(reader, token.line, Value(number));
}

ExpressionPtr parse_name(TokenReader& reader) {
  const LexerToken token = reader.take();
  if (token.text == "true" || token.text == "True") return constant(reader, token.line, Value(true));
  if (token.text == "false" || token.text == "False") return constant(reader, token.line, Value(false));
  if (token.text == "none" || token.text == "None")
    return constant(reader, token.line, Value(Value::Held(None{})));
  return make(reader, ExpressionKind::name, token.line, token.text);
}

ExpressionPtr parse_map(TokenReader& reader, int line) {
  auto node = make(reader, ExpressionKind::map, line, "");
  while (!reader.skip_symbol("}")) {
    if (!node->parts.empty()) {
      reader.expect_symbol(",");
      if (reader.skip_symbol("}")) break;
    }
    add_part(reader, *node, parse_expression(reader));
    reader.expect_symbol(":");
    add_part(reader, *node, parse_expression(reader));
  }
  return node;
}

ExpressionPtr parse_brackets(TokenReader& reader) {
  const LexerToken token = reader.take();
  if (token.text == "{") return parse_map(reader, token.line);
  if (token.text == "[") {
    auto node = make(reader, ExpressionKind::list, token.line, "");
    while (!reader.skip_symbol("]")) {
      if (!node->parts.empty()) {
        reader.expect_symbol(",");
        if (reader.skip_symbol("]")) break;
      }
      add_part(reader, *node, parse_expression(reader));
    }
    return node;
  }
  if (reader.skip_symbol(")")) return make(reader, ExpressionKind::tuple, token.line, "");
  auto inside = parse_tuple(reader);
  reader.expect_symbol(")");
  return inside;
}

ExpressionPtr parse_primary(TokenReader& reader) {
  const int line = reader.line();
  if (reader.is(TokenKind::integer) || reader.is(TokenKind::number)) return parse_number(reader);
  if (reader.is(TokenKind::name)) return parse_name(reader);
  if (reader.is_symbol("(") || reader.is_symbol("[") || reader.is_symbol("{")) return parse_brackets(reader);
  if (!reader.is(TokenKind::string)) reader.fail_expected("an expression");
  std::string value;
  while (reader.is(TokenKind::string)) value += reader.take().text;  // 'a' 'b' is one string
  return constant(reader, line, make_text(value));
}

ExpressionPtr parse_subscript(TokenReader& reader, ExpressionPtr operand, int line) {
  ExpressionPtr begin;
  if (!reader.is_symbol(":")) begin = parse_tuple(reader);
  if (reader.skip_symbol("]"))
    return make(reader, ExpressionKind::subscript, line, "", std::move(operand), std::move(begin));
  ExpressionPtr bounds[2];
  for (ExpressionPtr& bound : bounds) {
    if (!reader.skip_symbol(":")) break;
    if (!reader.is_symbol(":") && !reader.is_symbol("]")) bound = parse_expression(reader);
  }
  reader.expect_symbol("]");
  return make(reader, ExpressionKind::slice, line, "", std::move(operand), std::move(begin),
              std::move(bounds[0]), std::move(bounds[1]));
}

// Behind "is".
ExpressionPtr parse_test(TokenReader& reader, ExpressionPtr operand) {
  const int line = reader.line();
  const bool negated = reader.skip_name("not");
  const std::string name = reader.take_name("a test");
  if (!is_test(name))
    fail_at(reader.name(), line, fmt::format("got the test '{}', which is not known", name));
  auto node = make(reader, ExpressionKind::test, line, name, std::move(operand));
  const auto begins_argument = [&] {
    if (reader.is(TokenKind::name)) {
      static constexpr std::string_view kNoArguments[] = {"else", "or", "and", "is", "in", "not", "if"};
      return std::ranges::find(kNoArguments, reader.now().text) == std::end(kNoArguments);
    }
    return reader.is(TokenKind::string) || reader.is(TokenKind::integer) || reader.is(TokenKind::number) ||
           reader.is_symbol("[") || reader.is_symbol("{");
  };
  if (reader.skip_symbol("(")) {
    parse_arguments(reader, *node);
  } else if (begins_argument()) {
    Argument argument;
    argument.value = parse_postfix(reader, parse_primary(reader));
    node->height = std::max(node->height, argument.value->height + 1);
    node->arguments.push_back(std::move(argument));
  }
  return negated ? make(reader, ExpressionKind::logical_not, line, "", std::move(node)) : std::move(node);
}

ExpressionPtr parse_unary(TokenReader& reader, bool with_filters) {
  const TokenReader::Nested nested(reader);
  const int line = reader.line();
  ExpressionPtr node;
  if (reader.skip_symbol("-"))
    node = make(reader, ExpressionKind::negate, line, "", parse_unary(reader, false));
  else if (reader.skip_symbol("+"))
    node = make(reader, ExpressionKind::plus, line, "", parse_unary(reader, false));
  else
    node = parse_primary(reader);
  node = parse_postfix(reader, std::move(node));
  return with_filters ? parse_filters(reader, std::move(node)) : std::move(node);
}

using Parse = ExpressionPtr (*)(TokenReader&);

ExpressionPtr parse_binary(TokenReader& reader, std::initializer_list<std::string_view> symbols,
                           Parse operand) {
  ExpressionPtr left = operand(reader);
  while (true) {
    const auto found =
        std::ranges::find_if(symbols, [&](std::string_view symbol) { return reader.is_symbol(symbol); });
    if (found == symbols.end()) return left;
    const int line = reader.take().line;
    left = make(reader, ExpressionKind::binary, line, std::string(*found), std::move(left), operand(reader));
  }
}

ExpressionPtr parse_power(TokenReader& reader) {
  return parse_binary(reader, {"**"}, [](TokenReader& r) { return parse_unary(r, true); });
}
ExpressionPtr parse_product(TokenReader& reader) {
  return parse_binary(reader, {"*", "//", "/", "%"}, parse_power);
}
ExpressionPtr parse_concatenation(TokenReader& reader) {
  return parse_binary(reader, {"~"}, parse_product);
}
ExpressionPtr parse_sum(TokenReader& reader) {
  return parse_binary(reader, {"+", "-"}, parse_concatenation);
}

std::string comparison_word(TokenReader& reader) {
  for (const std::string_view symbol : {"==", "!=", ">=", "<=", ">", "<"})
    if (reader.skip_symbol(symbol)) return std::string(symbol);
  if (reader.skip_name("in")) return "in";
  if (reader.is_name("not") && reader.ahead().kind == TokenKind::name && reader.ahead().text == "in") {
    reader.take();
    reader.take();
    return "not in";
  }
  return {};
}

ExpressionPtr parse_comparison(TokenReader& reader) {
  const int line = reader.line();
  ExpressionPtr left = parse_sum(reader);
  std::string word = comparison_word(reader);
  if (word.empty()) return left;
  auto node = make(reader, ExpressionKind::comparison, line, "", std::move(left));
  for (; !word.empty(); word = comparison_word(reader)) {
    node->words.push_back(word);
    add_part(reader, *node, parse_sum(reader));
  }
  return node;
}

ExpressionPtr parse_not(TokenReader& reader) {
  const TokenReader::Nested nested(reader);
  const int line = reader.line();
  if (reader.skip_name("not")) return make(reader, ExpressionKind::logical_not, line, "", parse_not(reader));
  return parse_comparison(reader);
}

ExpressionPtr parse_and(TokenReader& reader) {
  ExpressionPtr left = parse_not(reader);
  while (reader.is_name("and")) {
    const int line = reader.take().line;
    left = make(reader, ExpressionKind::logical_and, line, "", std::move(left), parse_not(reader));
  }
  return left;
}

}  // namespace

ExpressionPtr parse_postfix(TokenReader& reader, ExpressionPtr operand) {
  while (true) {
    const int line = reader.line();
    if (reader.skip_symbol(".")) {
      if (reader.is(TokenKind::integer))
        operand = make(reader, ExpressionKind::subscript, line, "", std::move(operand), parse_number(reader));
      else
        operand = make(reader, ExpressionKind::attribute, line, reader.take_name("an attribute"),
                       std::move(operand));
    } else if (reader.skip_symbol("[")) {
      operand = parse_subscript(reader, std::move(operand), line);
    } else if (reader.skip_symbol("(")) {
      operand = make(reader, ExpressionKind::call, line, "", std::move(operand));
      parse_arguments(reader, *operand);
    } else {
      return operand;
    }
  }
}

ExpressionPtr parse_filter_chain(TokenReader& reader, ExpressionPtr operand) {
  do {
    const int line = reader.line();
    const std::string name = reader.take_name("a filter");
    if (!is_filter(name))
      fail_at(reader.name(), line, fmt::format("got the filter '{}', which is not known", name));
    auto node = make(reader, ExpressionKind::filter, line, name, std::move(operand));
    if (reader.skip_symbol("(")) parse_arguments(reader, *node);
    operand = std::move(node);
  } while (reader.skip_symbol("|"));
  return operand;
}

ExpressionPtr parse_filters(TokenReader& reader, ExpressionPtr operand) {
  while (true) {
    if (reader.skip_symbol("|"))
      operand = parse_filter_chain(reader, std::move(operand));
    else if (reader.skip_name("is"))
      operand = parse_test(reader, std::move(operand));
    else if (reader.skip_symbol("(")) {  // calls what a filter gave
      operand = make(reader, ExpressionKind::call, reader.line(), "", std::move(operand));
      parse_arguments(reader, *operand);
    } else {
      return operand;
    }
  }
}

ExpressionPtr parse_expression_without_condition(TokenReader& reader) {
  const TokenReader::Nested nested(reader);
  ExpressionPtr left = parse_and(reader);
  while (reader.is_name("or")) {
    const int line = reader.take().line;
    left = make(reader, ExpressionKind::logical_or, line, "", std::move(left), parse_and(reader));
  }
  return left;
}

ExpressionPtr parse_expression(TokenReader& reader) {
  const TokenReader::Nested nested(reader);
  ExpressionPtr value = parse_expression_without_condition(reader);
  while (reader.is_name("if")) {
    const int line = reader.take().line;
    ExpressionPtr condition = parse_expression_without_condition(reader), otherwise;
    if (reader.skip_name("else")) otherwise = parse_expression(reader);
    value = make(reader, ExpressionKind::conditional, line, "", std::move(value), std::move(condition),
                 std::move(otherwise));
  }
  return value;
}

ExpressionPtr parse_tuple(TokenReader& reader) {
  const int line = reader.line();
  ExpressionPtr first = parse_expression(reader);
  if (!reader.is_symbol(",")) return first;
  auto node = make(reader, ExpressionKind::tuple, line, "", std::move(first));
  while (reader.skip_symbol(",")) {
    const bool ends = reader.is_symbol(")") || reader.is_symbol("]") || reader.is(TokenKind::block_end) ||
                      reader.is(TokenKind::output_end);
    if (ends) break;
    add_part(reader, *node, parse_expression(reader));
  }
  return node;
}

}  // namespace athanor::text::chat_template
