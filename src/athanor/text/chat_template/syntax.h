// The syntax tree of a template: statements that write text, and expressions that have values.
//
//   const std::vector<Statement> body = parse_template(source, name);   // parser.h
//
// Thread rule: plain data, const once parsed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/text/chat_template/value.h"

namespace athanor::text::chat_template {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class ExpressionKind {
  constant,   // value
  name,       // text
  list,       // parts: the items
  tuple,      // parts: the items
  map,        // parts: key, value, key, value, ...
  attribute,  // parts[0].text
  subscript,  // parts[0][parts[1]]
  slice,      // parts[0][parts[1]:parts[2]:parts[3]], each bound may be null
  call,       // parts[0](arguments)
  filter,     // parts[0] | text(arguments); parts[0] is null in a {% filter %} block
  test,       // parts[0] is text(arguments)
  negate,     // -parts[0]
  plus,       // +parts[0]
  logical_not,
  logical_and,
  logical_or,
  binary,       // parts[0] text parts[1], text one of + - * / // % ** ~
  comparison,   // parts[0] words[0] parts[1] words[1] parts[2] ...
  conditional,  // parts[0] if parts[1] else parts[2]; parts[2] may be null
};

struct Argument {
  std::string name;  // empty: by position
  int stars = 0;     // 1: *value, 2: **value
  ExpressionPtr value;
};

struct Expression {
  ExpressionKind kind;
  int line;
  std::string text = {};
  Value value = {};
  std::vector<ExpressionPtr> parts = {};
  std::vector<std::string> words = {};
  int height = 1;  // levels of expressions in it, itself included
  std::vector<Argument> arguments = {};
};

struct Statement;
using Block = std::vector<Statement>;

// What an assignment or a loop binds: a name, an attribute of a namespace, or several of these.
struct Target {
  std::string name;
  std::string attribute;  // not empty: name.attribute
  std::vector<Target> parts;
};

struct Parameter {
  std::string name;
  ExpressionPtr otherwise;  // may be null: then undefined
};

enum class StatementKind {
  text,          // text
  output,        // value
  condition,     // if value: body else: otherwise (an elif is an `otherwise` of one statement)
  loop,          // for target in value if filter: body else: otherwise
  set,           // target = value
  set_block,     // target = what body writes, through value (filters) if not null
  macro,         // text(parameters): body
  call_block,    // value is a call; parameters and body are its caller
  filter_block,  // value is a filter without operand
  generation,    // body is an answer
  break_loop,
  continue_loop,
};

struct Statement {
  StatementKind kind;
  int line;
  std::string text = {};
  ExpressionPtr value = {};
  ExpressionPtr filter = {};
  Target target = {};
  std::vector<Parameter> parameters = {};
  Block body = {}, otherwise = {};
};

}  // namespace athanor::text::chat_template
