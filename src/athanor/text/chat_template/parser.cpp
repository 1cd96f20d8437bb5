#include "athanor/text/chat_template/parser.h"

#include <fmt/format.h>

#include <algorithm>

namespace athanor::text::chat_template {
namespace {

constexpr int kMaxDepth = 500;

std::string described(const LexerToken& token) {
  switch (token.kind) {
    case TokenKind::text:
      return "text";
    case TokenKind::block_begin:
      return "{%";
    case TokenKind::block_end:
      return "%}";
    case TokenKind::output_begin:
      return "{{";
    case TokenKind::output_end:
      return "}}";
    case TokenKind::string:
      return "a string";
    case TokenKind::end:
      return "the end of the template";
    default:
      return fmt::format("'{}'", token.text);
  }
}

class Parser {
 public:
  Parser(std::vector<LexerToken> tokens, const std::string& name) : reader_(std::move(tokens), name) {}

  Block run() {
    Block block = parse_block({});
    if (!reader_.is(TokenKind::end)) reader_.fail_expected("the end of the template");
    return block;
  }

 private:
  // Up to a block tag with one of these words, which is left in front: "{% endif %}" stops at "endif".
  Block parse_block(std::initializer_list<std::string_view> ends) {
    const TokenReader::Nested nested(reader_);
    Block block;
    while (!reader_.is(TokenKind::end)) {
      const int line = reader_.line();
      if (reader_.is(TokenKind::text)) {
        block.push_back({.kind = StatementKind::text, .line = line, .text = reader_.take().text});
      } else if (reader_.is(TokenKind::output_begin)) {
        reader_.take();
        block.push_back({.kind = StatementKind::output, .line = line, .value = parse_tuple(reader_)});
        reader_.expect(TokenKind::output_end);
      } else {
        reader_.expect(TokenKind::block_begin);
        if (std::ranges::any_of(ends, [&](std::string_view end) { return reader_.is_name(end); }))
          return block;
        block.push_back(parse_statement());
      }
    }
    if (ends.size() > 0) reader_.fail_expected(fmt::format("{{% {} %}}", *(ends.end() - 1)));
    return block;
  }

  void end_tag(const char* word) {
    if (!reader_.skip_name(word)) reader_.fail_expected(fmt::format("{{% {} %}}", word));
    reader_.expect(TokenKind::block_end);
  }

  Block parse_body(const char* end) {
    reader_.expect(TokenKind::block_end);
    Block body = parse_block({end});
    end_tag(end);
    return body;
  }

  Statement parse_statement() {
    const int line = reader_.line();
    const std::string word = reader_.take_name("a statement");
    Statement statement{.kind = StatementKind::condition, .line = line};
    if (word == "if") return parse_condition(line);
    if (word == "for") return parse_loop(line);
    if (word == "set") return parse_set(line);
    if (word == "macro") return parse_macro(line);
    if (word == "call") return parse_call(line);
    if (word == "filter") {
      statement.kind = StatementKind::filter_block;
      statement.value = parse_filter_chain(reader_, nullptr);
      statement.body = parse_body("endfilter");
      return statement;
    }
    if (word == "generation") {
      statement.kind = StatementKind::generation;
      statement.body = parse_body("endgeneration");
      return statement;
    }
    if (word == "break" || word == "continue") {
      if (loops_ == 0)
        fail_at(reader_.name(), line, fmt::format("{{% {} %}} stands outside of a loop", word));
      statement.kind = word == "break" ? StatementKind::break_loop : StatementKind::continue_loop;
      reader_.expect(TokenKind::block_end);
      return statement;
    }
    const bool is_end = word.starts_with("end") || word == "else" || word == "elif";
    fail_at(
        reader_.name(), line,
        is_end ? fmt::format("{{% {} %}} ends nothing that is open here", word)
               : fmt::format(
                     "got the statement '{}', expected one of if, for, set, macro, call, filter, generation, "
                     "break, continue",
                     word));
  }

  Statement parse_condition(int line) {
    const TokenReader::Nested nested(reader_);
    Statement statement{.kind = StatementKind::condition, .line = line};
    statement.value = parse_tuple(reader_);
    reader_.expect(TokenKind::block_end);
    statement.body = parse_block({"elif", "else", "endif"});
    const int next_line = reader_.line();
    if (reader_.skip_name("elif")) {
      statement.otherwise.push_back(parse_condition(next_line));  // takes the {% endif %}
      return statement;
    }
    if (reader_.skip_name("else")) {
      reader_.expect(TokenKind::block_end);
      statement.otherwise = parse_block({"endif"});
    }
    end_tag("endif");
    return statement;
  }

  Target parse_name_target() {
    Target target;
    const int line = reader_.line();
    target.name = reader_.take_name("a name");
    static constexpr std::string_view kTaken[] = {"true", "false", "none", "True", "False", "None"};
    if (std::ranges::find(kTaken, target.name) != std::end(kTaken))
      fail_at(reader_.name(), line, fmt::format("'{}' cannot be set", target.name));
    return target;
  }

  Target parse_target(bool may_be_attribute) {
    const TokenReader::Nested nested(reader_);
    const auto one = [&] {
      if (reader_.skip_symbol("(")) {
        Target inside = parse_target(false);
        reader_.expect_symbol(")");
        return inside;
      }
      return parse_name_target();
    };
    Target target = one();
    if (may_be_attribute && reader_.skip_symbol(".")) {
      target.attribute = reader_.take_name("an attribute");
      return target;
    }
    if (!reader_.is_symbol(",")) return target;
    Target several;
    several.parts.push_back(std::move(target));
    while (reader_.skip_symbol(",")) {
      if (reader_.is_name("in") || reader_.is_symbol("=")) break;
      several.parts.push_back(one());
    }
    return several;
  }

  Statement parse_loop(int line) {
    Statement statement{.kind = StatementKind::loop, .line = line};
    statement.target = parse_target(false);
    if (!reader_.skip_name("in")) reader_.fail_expected("'in'");
    statement.value = parse_expression_without_condition(reader_);
    if (reader_.is_symbol(","))
      reader_.fail("a loop over items without brackets is not supported, expected [a, b]");
    if (reader_.skip_name("if")) statement.filter = parse_expression(reader_);
    if (reader_.is_name("recursive")) reader_.fail("'recursive' loops are not supported");
    reader_.expect(TokenKind::block_end);
    ++loops_;
    statement.body = parse_block({"else", "endfor"});
    --loops_;
    if (reader_.skip_name("else")) {
      reader_.expect(TokenKind::block_end);
      statement.otherwise = parse_block({"endfor"});
    }
    end_tag("endfor");
    return statement;
  }

  Statement parse_set(int line) {
    Statement statement{.kind = StatementKind::set, .line = line};
    statement.target = parse_target(true);
    if (reader_.skip_symbol("=")) {
      statement.value = parse_tuple(reader_);
      reader_.expect(TokenKind::block_end);
      return statement;
    }
    if (!statement.target.parts.empty()) reader_.fail_expected("'='");
    statement.kind = StatementKind::set_block;
    if (reader_.skip_symbol("|")) statement.value = parse_filter_chain(reader_, nullptr);
    statement.body = parse_body("endset");
    return statement;
  }

  std::vector<Parameter> parse_parameters() {
    std::vector<Parameter> parameters;
    while (!reader_.skip_symbol(")")) {
      if (!parameters.empty()) reader_.expect_symbol(",");
      if (reader_.skip_symbol(")")) break;
      Parameter parameter{.name = parse_name_target().name, .otherwise = {}};
      for (const Parameter& other : parameters)
        if (other.name == parameter.name)
          reader_.fail(fmt::format("the parameter '{}' stands twice", parameter.name));
      if (reader_.skip_symbol("="))
        parameter.otherwise = parse_expression(reader_);
      else if (!parameters.empty() && parameters.back().otherwise)
        reader_.fail(
            fmt::format("the parameter '{}' has no default, but the one before it has", parameter.name));
      parameters.push_back(std::move(parameter));
    }
    return parameters;
  }

  // A loop around a macro is not left by a break in it.
  Block parse_own_body(const char* end) {
    const int loops = std::exchange(loops_, 0);
    Block body = parse_body(end);
    loops_ = loops;
    return body;
  }

  Statement parse_macro(int line) {
    Statement statement{.kind = StatementKind::macro, .line = line};
    statement.text = parse_name_target().name;
    reader_.expect_symbol("(");
    statement.parameters = parse_parameters();
    statement.body = parse_own_body("endmacro");
    return statement;
  }

  Statement parse_call(int line) {
    Statement statement{.kind = StatementKind::call_block, .line = line};
    if (reader_.skip_symbol("(")) statement.parameters = parse_parameters();
    statement.value = parse_expression(reader_);
    if (statement.value->kind != ExpressionKind::call)
      fail_at(reader_.name(), line, "{% call %} expects the call of a macro");
    statement.body = parse_own_body("endcall");
    return statement;
  }

  TokenReader reader_;
  int loops_ = 0;
};

}  // namespace

LexerToken TokenReader::take() {
  LexerToken token = tokens_[at_];
  if (token.kind != TokenKind::end) ++at_;
  return token;
}

bool TokenReader::skip_symbol(std::string_view text) {
  if (!is_symbol(text)) return false;
  take();
  return true;
}

bool TokenReader::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  take();
  return true;
}

void TokenReader::expect_symbol(std::string_view text) {
  if (!skip_symbol(text)) fail_expected(fmt::format("'{}'", text));
}

void TokenReader::expect(TokenKind kind) {
  if (!is(kind)) fail_expected(described({kind, "", 0}));
  take();
}

std::string TokenReader::take_name(const char* of_what) {
  if (!is(TokenKind::name)) fail_expected(fmt::format("the name of {}", of_what));
  return take().text;
}

void TokenReader::fail_expected(const std::string& what) const {
  fail(fmt::format("got {}, expected {}", described(now()), what));
}

TokenReader::Nested::Nested(TokenReader& reader) : reader_(reader) {
  if (reader.depth_ >= kMaxDepth) reader.fail(fmt::format("nested deeper than {} levels", kMaxDepth));
  ++reader.depth_;
}

Block parse_template(std::string_view source, const std::string& name) {
  return Parser(cut_into_tokens(source, name), name).run();
}

}  // namespace athanor::text::chat_template
