// Parses the source of a template. What the interpreter does not know is refused here, by name and line: statements,
// filters, tests, and arguments that stand twice.
//
//   const Block block = parse_template("{% if x %}yes{% endif %}", "a.jinja");
//
// Errors: Error "NAME line LINE: ...". Thread rule: pure function.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "athanor/text/chat_template/lexer.h"
#include "athanor/text/chat_template/syntax.h"

namespace athanor::text::chat_template {

Block parse_template(std::string_view source, const std::string& name);

// The tokens of a template with the place that is being read. Used by the parser alone.
class TokenReader {
 public:
  TokenReader(std::vector<LexerToken> tokens, const std::string& name)
      : tokens_(std::move(tokens)), name_(name) {}

  const LexerToken& now() const { return tokens_[at_]; }
  const LexerToken& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const std::string& name() const { return name_; }
  int line() const { return now().line; }
  LexerToken take();
  bool is(TokenKind kind) const { return now().kind == kind; }
  bool is_symbol(std::string_view text) const { return is(TokenKind::symbol) && now().text == text; }
  bool is_name(std::string_view text) const { return is(TokenKind::name) && now().text == text; }
  bool skip_symbol(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_symbol(std::string_view text);
  void expect(TokenKind kind);
  std::string take_name(const char* of_what);
  [[noreturn]] void fail(const std::string& message) const { fail_at(name_, line(), message); }
  [[noreturn]] void fail_expected(const std::string& what) const;

  // Bounds the recursion of the parser: one of these lives in each nested construct.
  class Nested {
   public:
    explicit Nested(TokenReader& reader);
    ~Nested() { --reader_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    TokenReader& reader_;
  };

 private:
  std::vector<LexerToken> tokens_;
  const std::string& name_;
  size_t at_ = 0;
  int depth_ = 0;
};

// parse_expression.cpp
ExpressionPtr parse_expression(TokenReader& reader);
ExpressionPtr parse_expression_without_condition(TokenReader& reader);
ExpressionPtr parse_tuple(TokenReader& reader);  // items without brackets, or one expression
ExpressionPtr parse_postfix(TokenReader& reader, ExpressionPtr operand);  // .name [..] (..)
ExpressionPtr parse_filters(TokenReader& reader, ExpressionPtr operand);  // | name(...); operand may be null
// The first filter's bar has been read, or stands in the name of a {% filter NAME %} block.
ExpressionPtr parse_filter_chain(TokenReader& reader, ExpressionPtr operand);

}  // namespace athanor::text::chat_template
