#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/text/chat_template/evaluator.h"
#include "athanor/text/chat_template/lexer.h"

namespace athanor::text::chat_template {
namespace {

constexpr int kMaxCallDepth = 1000;  // of statements and expressions in one another, calls included

}  // namespace

Evaluator::Deeper::Deeper(Evaluator& evaluator) : evaluator_(evaluator) {
  if (evaluator.depth_ >= kMaxCallDepth)
    evaluator.fail(fmt::format("calls are nested deeper than {} levels: a macro calls itself without end",
                               kMaxCallDepth));
  ++evaluator.depth_;
}

class Evaluator::OwnScope {
 public:
  OwnScope(Evaluator& evaluator, std::shared_ptr<Scope> parent)
      : evaluator_(evaluator), before_(evaluator.scope_) {
    evaluator.scope_ = std::make_shared<Scope>(Scope{std::move(parent), {}});
  }
  ~OwnScope() { evaluator_.scope_ = before_; }
  OwnScope(const OwnScope&) = delete;
  OwnScope& operator=(const OwnScope&) = delete;

 private:
  Evaluator& evaluator_;
  std::shared_ptr<Scope> before_;
};

Evaluator::Evaluator(const Block& block, const std::string& name, const RenderLimits& limits)
    : block_(block), name_(name), limits_(limits), scope_(std::make_shared<Scope>()) {}

MarkedText Evaluator::run() {
  MarkedText out;
  out_ = &out;
  scope_ = std::make_shared<Scope>(Scope{scope_, {}});
  execute(block_);
  return out;
}

void Evaluator::fail(const std::string& message) const {
  fail_at(name_, line_, message);
}

void Evaluator::spend(size_t steps) {
  steps_ += static_cast<int64_t>(steps);
  if (steps_ > limits_.steps)
    fail(fmt::format("the template takes more than {} steps: a loop without end?", limits_.steps));
}

Evaluator::Flow Evaluator::execute(const Block& block) {
  const Deeper deeper(*this);
  for (const Statement& statement : block) {
    line_ = statement.line;
    spend(1);
    if (const Flow flow = execute(statement); flow != Flow::on) return flow;
  }
  return Flow::on;
}

void Evaluator::write(const MarkedText& text) {
  spend_bytes(text.size());
  check_size(out_->size() + text.size());
  *out_ += text;
}

Evaluator::Flow Evaluator::execute(const Statement& statement) {
  switch (statement.kind) {
    case StatementKind::text:
      write(MarkedText(statement.text));
      return Flow::on;
    case StatementKind::output:
      write(evaluate(*statement.value).shown());
      return Flow::on;
    case StatementKind::condition:
      return execute(evaluate(*statement.value).is_true() ? statement.body : statement.otherwise);
    case StatementKind::loop:
      return execute_loop(statement);
    case StatementKind::set:
      assign(statement.target, evaluate(*statement.value));
      return Flow::on;
    case StatementKind::set_block:
      return execute_set_block(statement);
    case StatementKind::macro:
      scope_->names[statement.text] = make_macro(statement.text, statement.parameters, statement.body);
      return Flow::on;
    case StatementKind::call_block:
      execute_call(statement);
      return Flow::on;
    case StatementKind::filter_block: {
      MarkedText inside;
      const Flow flow = execute_inside(statement.body, inside);
      write(apply_filters(*statement.value, text(std::move(inside))).shown());
      return flow;
    }
    case StatementKind::generation: {
      const size_t begin = out_->size();
      const OwnScope own(*this, scope_);
      const Flow flow = execute(statement.body);
      out_->mark_answer(begin);
      return flow;
    }
    case StatementKind::break_loop:
      return Flow::leave_loop;
    case StatementKind::continue_loop:
      return Flow::next_item;
  }
  return Flow::on;
}

Evaluator::Flow Evaluator::execute_inside(const Block& block, MarkedText& out) {
  const OwnScope own(*this, scope_);
  MarkedText* const before = std::exchange(out_, &out);
  const Flow flow = execute(block);
  out_ = before;
  return flow;
}

Evaluator::Flow Evaluator::execute_set_block(const Statement& statement) {
  MarkedText inside;
  const Flow flow = execute_inside(statement.body, inside);
  Value value = text(std::move(inside));
  if (statement.value) value = apply_filters(*statement.value, std::move(value));
  line_ = statement.line;
  assign(statement.target, std::move(value));
  return flow;
}

void Evaluator::assign(const Target& target, Value value) {
  if (!target.parts.empty()) {
    const List items = items_of(value, "the value to unpack");
    if (items.size() != target.parts.size())
      fail(fmt::format("got {} values, expected {}", items.size(), target.parts.size()));
    for (size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
    return;
  }
  if (target.attribute.empty()) {
    scope_->names[target.name] = std::move(value);
    return;
  }
  const Value* object = nullptr;
  for (const Scope* scope = scope_.get(); scope && !object; scope = scope->parent.get())
    if (const auto found = scope->names.find(target.name); found != scope->names.end())
      object = &found->second;
  const NamespaceRef* const space = object ? object->get<NamespaceRef>() : nullptr;
  if (!space)
    fail(fmt::format("'{}' is no namespace, so '{}' cannot be set in it", target.name, target.attribute));
  if (value.holds_namespace()) fail("a namespace cannot be stored in a namespace");
  auto& attributes = (*space)->attributes;
  const auto known =
      std::ranges::find(attributes, target.attribute, [](const auto& entry) { return entry.first; });
  if (known != attributes.end())
    known->second = std::move(value);
  else
    attributes.emplace_back(target.attribute, std::move(value));
}

Evaluator::Flow Evaluator::execute_loop(const Statement& statement) {
  List items = items_of(evaluate(*statement.value), "the value of a loop");
  if (statement.filter) {
    List kept;
    for (Value& item : items) {
      const OwnScope own(*this, scope_);
      line_ = statement.line;
      spend(1);
      assign(statement.target, item);
      if (evaluate(*statement.filter).is_true()) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  if (items.empty()) {
    const OwnScope own(*this, scope_);
    return execute(statement.otherwise);
  }
  const auto count = static_cast<int64_t>(items.size());
  for (int64_t i = 0; i < count; ++i) {
    const OwnScope own(*this, scope_);
    line_ = statement.line;
    spend(16);
    Map loop;
    loop.put(MarkedText("index"), Value(i + 1));
    loop.put(MarkedText("index0"), Value(i));
    loop.put(MarkedText("revindex"), Value(count - i));
    loop.put(MarkedText("revindex0"), Value(count - i - 1));
    loop.put(MarkedText("first"), Value(i == 0));
    loop.put(MarkedText("last"), Value(i == count - 1));
    loop.put(MarkedText("length"), Value(count));
    const auto at = static_cast<size_t>(i);
    if (i > 0) loop.put(MarkedText("previtem"), items[at - 1]);
    if (i < count - 1) loop.put(MarkedText("nextitem"), items[at + 1]);
    loop.put(MarkedText("cycle"), Value(std::make_shared<const CallableBody>(CallableBody{
                                      "loop.cycle", [at](Evaluator& evaluator, const Arguments& arguments) {
                                        if (arguments.positional.empty())
                                          evaluator.fail("loop.cycle: got no items");
                                        return arguments.positional[at % arguments.positional.size()];
                                      }})));
    scope_->names["loop"] = make_map(std::move(loop));
    assign(statement.target, items[at]);
    if (execute(statement.body) == Flow::leave_loop) break;
  }
  return Flow::on;
}

Value Evaluator::make_macro(const std::string& name, const std::vector<Parameter>& parameters,
                            const Block& body) {
  // Weak, because a scope holds its macros. Only by a namespace could a macro outlive its scope.
  auto call = [name, &parameters, &body, home = std::weak_ptr<Scope>(scope_)](Evaluator& self,
                                                                              const Arguments& arguments) {
    const std::shared_ptr<Scope> scope = home.lock();
    if (!scope) self.fail(fmt::format("the macro '{}' is called where it no longer exists", name));
    const Deeper deeper(self);
    const int line = self.line_;
    const OwnScope own(self, scope);
    auto& names = self.scope_->names;
    if (arguments.positional.size() > parameters.size())
      self.fail(fmt::format("the macro '{}' got {} arguments, expected at most {}", name,
                            arguments.positional.size(), parameters.size()));
    for (size_t i = 0; i < arguments.positional.size(); ++i)
      names[parameters[i].name] = arguments.positional[i];
    for (const auto& [key, value] : arguments.named) {
      const bool is_known =
          key == "caller" ||
          std::ranges::any_of(parameters, [&, &key = key](const Parameter& p) { return p.name == key; });
      if (!is_known) self.fail(fmt::format("the macro '{}' has no parameter '{}'", name, key));
      if (!names.try_emplace(key, value).second)
        self.fail(fmt::format("the macro '{}' got the argument '{}' twice", name, key));
    }
    for (const Parameter& parameter : parameters)
      if (!names.contains(parameter.name))
        names[parameter.name] = parameter.otherwise ? self.evaluate(*parameter.otherwise)
                                                    : Value(Value::Held(Undefined{parameter.name}));
    MarkedText out;
    MarkedText* const before = std::exchange(self.out_, &out);
    self.execute(body);
    self.out_ = before;
    self.line_ = line;
    return self.text(std::move(out));
  };
  return Value(std::make_shared<const CallableBody>(CallableBody{name, std::move(call)}));
}

void Evaluator::execute_call(const Statement& statement) {
  const Expression& node = *statement.value;
  const Value callee = evaluate(*node.parts[0]);
  Arguments arguments = evaluate_arguments(node);
  arguments.named.emplace_back("caller", make_macro("caller", statement.parameters, statement.body));
  line_ = statement.line;
  write(call(callee, arguments).shown());
}

}  // namespace athanor::text::chat_template
