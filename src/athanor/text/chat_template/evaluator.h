// Runs a parsed template: statements write text, expressions have values. It has Jinja's scopes: a loop, a macro and a
// block that is caught have their own, an {% if %} has none.
//
//   Evaluator evaluator(block, name, {});
//   evaluator.define("messages", messages);
//   MarkedText text = evaluator.run();
//
// Work is bounded: by steps (a statement, an expression, 32 bytes of text and an item of a list count as one each), by
// bytes of any text and by depth of calls. Errors: Error "NAME line LINE: ...". Thread rule: one thread; an evaluator
// runs once.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "athanor/text/chat_template/syntax.h"
#include "athanor/text/chat_template/value.h"

namespace athanor::text::chat_template {

struct RenderLimits {
  int64_t steps = 20'000'000;
  size_t text_bytes = size_t{64} << 20;
};

struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Evaluator {
 public:
  Evaluator(const Block& block, const std::string& name, const RenderLimits& limits);

  void define(const std::string& name, Value value) { scope_->names[name] = std::move(value); }
  MarkedText run();

  // For filters, tests, methods and functions.
  [[noreturn]] void fail(const std::string& message) const;
  void spend(size_t steps);
  void spend_bytes(size_t bytes) { spend(bytes / 32); }
  void check_size(size_t bytes) const;  // of a text that grows
  Value text(MarkedText bytes);         // within the bound
  Value list(List items, bool is_tuple = false);
  List items_of(const Value& value,
                const std::string& what);  // of a list, the keys of a map, the characters of a text
  Value attribute(const Value& object, const std::string& name);
  Value call(const Value& callee, const Arguments& arguments);
  // The arguments by position or name; Error for more or others than `names`.
  std::vector<std::optional<Value>> bind(const std::string& what, const Arguments& arguments,
                                         std::initializer_list<const char*> names);
  const MarkedText& need_text(const Value& value, const std::string& what) const;
  int64_t need_integer(const Value& value, const std::string& what) const;

 private:
  struct Scope {
    std::shared_ptr<Scope> parent;
    std::unordered_map<std::string, Value> names;
  };
  enum class Flow { on, leave_loop, next_item };
  // One lives in each statement and expression that is being run: bounds how deep they are in one another.
  class Deeper {
   public:
    explicit Deeper(Evaluator& evaluator);
    ~Deeper() { --evaluator_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Evaluator& evaluator_;
  };
  class OwnScope;

  Flow execute(const Block& block);
  Flow execute(const Statement& statement);
  Flow execute_loop(const Statement& statement);
  Flow execute_set_block(const Statement& statement);
  Flow execute_inside(const Block& block, MarkedText& out);  // in its own scope, into `out`
  void write(const MarkedText& text);
  void assign(const Target& target, Value value);
  Value make_macro(const std::string& name, const std::vector<Parameter>& parameters, const Block& body);
  void execute_call(const Statement& statement);
  Value apply_filters(const Expression& filter, Value input);

  Value evaluate(const Expression& node);
  Value evaluate_name(const Expression& node);
  Value evaluate_map(const Expression& node);
  Value evaluate_comparison(const Expression& node);
  Value evaluate_slice(const Expression& node);
  Value evaluate_test(const Expression& node);
  Value subscript(const Value& object, const Value& key);
  Value binary(const std::string& symbol, const Value& left, const Value& right);
  Value arithmetic(const std::string& symbol, const Value& left, const Value& right);
  bool contains(const Value& container, const Value& item);
  Value negated(const Value& value);
  Arguments evaluate_arguments(const Expression& node);
  List evaluate_parts(const Expression& node);

  const Block& block_;
  const std::string& name_;
  RenderLimits limits_;
  int64_t steps_ = 0;
  int depth_ = 0;
  int line_ = 1;
  std::shared_ptr<Scope> scope_;
  MarkedText* out_ = nullptr;
};

}  // namespace athanor::text::chat_template
