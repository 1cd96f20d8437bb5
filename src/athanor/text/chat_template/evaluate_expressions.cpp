#include <fmt/format.h>

#include <algorithm>

#include "athanor/text/chat_template/evaluator.h"
#include "athanor/text/chat_template/filters.h"
#include "athanor/text/chat_template/methods.h"
#include "athanor/text/chat_template/tests.h"
#include "athanor/text/unicode.h"

namespace athanor::text::chat_template {
namespace {

std::string undefined_name(const Value& value) {
  const auto* const undefined = value.get<Undefined>();
  return undefined && !undefined->what.empty() ? fmt::format("'{}' is undefined", undefined->what)
                                               : "got an undefined value";
}

Value undefined(std::string what) {
  return Value(Value::Held(Undefined{std::move(what)}));
}

// The positions of a slice, as Python has them.
std::vector<size_t> sliced(int64_t size, std::optional<int64_t> begin, std::optional<int64_t> end,
                           int64_t step) {
  const int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? size : size - 1;
  const auto place = [&](const std::optional<int64_t>& bound, int64_t otherwise) {
    if (!bound) return otherwise;
    return std::clamp(*bound < 0 ? *bound + size : *bound, lowest, highest);
  };
  const int64_t first = place(begin, step > 0 ? lowest : highest),
                last = place(end, step > 0 ? highest : lowest);
  std::vector<size_t> places;
  for (int64_t at = first; step > 0 ? at < last : at > last; at += step) {
    places.push_back(static_cast<size_t>(at));
    if (step > size || step < -size) break;  // the next would be outside, and might not fit
  }
  return places;
}

}  // namespace

Value Evaluator::evaluate(const Expression& node) {
  spend(1);
  line_ = node.line;
  const Deeper deeper(*this);
  const auto part = [&](size_t i) { return evaluate(*node.parts[i]); };
  switch (node.kind) {
    case ExpressionKind::constant:
      return node.value;
    case ExpressionKind::name:
      return evaluate_name(node);
    case ExpressionKind::list:
    case ExpressionKind::tuple:
      return list(evaluate_parts(node), node.kind == ExpressionKind::tuple);
    case ExpressionKind::map:
      return evaluate_map(node);
    case ExpressionKind::attribute: {
      const Value object = part(0);
      line_ = node.line;
      return attribute(object, node.text);
    }
    case ExpressionKind::subscript: {
      const Value object = part(0), key = part(1);
      line_ = node.line;
      return subscript(object, key);
    }
    case ExpressionKind::slice:
      return evaluate_slice(node);
    case ExpressionKind::call: {
      const Value callee = part(0);
      Arguments arguments = evaluate_arguments(node);
      line_ = node.line;
      return call(callee, arguments);
    }
    case ExpressionKind::filter:
      return apply_filters(node, {});
    case ExpressionKind::test:
      return evaluate_test(node);
    case ExpressionKind::negate:
      return negated(part(0));
    case ExpressionKind::plus: {
      Value value = part(0);
      if (!value.is_number()) fail(fmt::format("+: got {}, expected a number", value.type_name()));
      return value;
    }
    case ExpressionKind::logical_not:
      return Value(!part(0).is_true());
    case ExpressionKind::logical_and: {
      Value left = part(0);
      return left.is_true() ? part(1) : left;
    }
    case ExpressionKind::logical_or: {
      Value left = part(0);
      return left.is_true() ? left : part(1);
    }
    case ExpressionKind::binary: {
      const Value left = part(0), right = part(1);
      line_ = node.line;
      return binary(node.text, left, right);
    }
    case ExpressionKind::comparison:
      return evaluate_comparison(node);
    case ExpressionKind::conditional:
      if (part(1).is_true()) return part(0);
      return node.parts[2] ? part(2) : undefined("the value of an if without else");
  }
  return {};
}

List Evaluator::evaluate_parts(const Expression& node) {
  List items;
  items.reserve(node.parts.size());
  for (const ExpressionPtr& part : node.parts) items.push_back(evaluate(*part));
  return items;
}

Value Evaluator::evaluate_name(const Expression& node) {
  for (const Scope* scope = scope_.get(); scope; scope = scope->parent.get())
    if (const auto found = scope->names.find(node.text); found != scope->names.end()) return found->second;
  return undefined(node.text);
}

Value Evaluator::evaluate_map(const Expression& node) {
  const List parts = evaluate_parts(node);
  Map map;
  for (size_t i = 0; i + 1 < parts.size(); i += 2)
    map.put(need_text(parts[i], "the key of a map"), parts[i + 1]);
  return make_map(std::move(map));
}

Value Evaluator::evaluate_comparison(const Expression& node) {
  Value left = evaluate(*node.parts[0]);
  for (size_t i = 0; i < node.words.size(); ++i) {
    Value right = evaluate(*node.parts[i + 1]);
    line_ = node.line;
    const std::string& word = node.words[i];
    bool holds = false;
    int order = 0;
    if (word == "==" || word == "!=")
      holds = equal(left, right) == (word == "==");
    else if (word == "in" || word == "not in")
      holds = contains(right, left) == (word == "in");
    else if (!compare(left, right, order))
      fail(fmt::format("{}: got {} and {}, which have no order", word, left.type_name(), right.type_name()));
    else
      holds = word == "<" ? order < 0 : word == ">" ? order > 0 : word == "<=" ? order <= 0 : order >= 0;
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

bool Evaluator::contains(const Value& container, const Value& item) {
  if (container.is_undefined()) return false;
  if (const MarkedText* const whole = container.text()) {
    spend_bytes(whole->size());
    return whole->bytes().find(need_text(item, "what is looked for in a text").bytes()) != std::string::npos;
  }
  if (container.map()) return item.text() && container.map()->find(item.text()->bytes());
  if (!container.list())
    fail(fmt::format("in: got {}, expected a list, a map or a text", container.type_name()));
  spend(container.list()->items.size());
  return std::ranges::any_of(container.list()->items, [&](const Value& other) { return equal(item, other); });
}

Value Evaluator::evaluate_test(const Expression& node) {
  const Value value = evaluate(*node.parts[0]);
  Arguments arguments = evaluate_arguments(node);
  line_ = node.line;
  return Value(apply_test(*this, node.text, value, arguments));
}

Value Evaluator::apply_filters(const Expression& node, Value input) {
  if (node.parts[0]) {
    const Expression& operand = *node.parts[0];
    // In a {% filter a | b %} block the chain ends in a filter without operand, which takes the block.
    input =
        operand.kind == ExpressionKind::filter ? apply_filters(operand, std::move(input)) : evaluate(operand);
  }
  const Arguments arguments = evaluate_arguments(node);
  line_ = node.line;
  spend(1);
  return apply_filter(*this, node.text, input, arguments);
}

Arguments Evaluator::evaluate_arguments(const Expression& node) {
  Arguments arguments;
  for (const Argument& argument : node.arguments) {
    Value value = evaluate(*argument.value);
    if (argument.stars == 1) {
      for (Value& item : items_of(value, "*")) arguments.positional.push_back(std::move(item));
    } else if (argument.stars == 2) {
      if (!value.map()) fail(fmt::format("**: got {}, expected a map", value.type_name()));
      for (const auto& [key, item] : value.map()->entries) arguments.named.emplace_back(key.bytes(), item);
    } else if (argument.name.empty()) {
      arguments.positional.push_back(std::move(value));
    } else {
      arguments.named.emplace_back(argument.name, std::move(value));
    }
  }
  return arguments;
}

Value Evaluator::call(const Value& callee, const Arguments& arguments) {
  const CallableRef* const callable = callee.get<CallableRef>();
  if (callee.is_undefined()) fail(undefined_name(callee) + ", so it cannot be called");
  if (!callable) fail(fmt::format("got {}, expected something that can be called", callee.type_name()));
  const CallableRef held = *callable;
  return held->call(*this, arguments);
}

Value Evaluator::attribute(const Value& object, const std::string& name) {
  if (object.is_undefined())
    fail(fmt::format("{}, so it has no attribute '{}'", undefined_name(object), name));
  if (const auto method = find_method(object, name))
    return Value(std::make_shared<const CallableBody>(
        CallableBody{name, [method, object, name](Evaluator& self, const Arguments& arguments) {
                       return method(self, object, name, arguments);
                     }}));
  if (object.map())
    if (const Value* const found = object.map()->find(name)) return *found;
  if (const NamespaceRef* const space = object.get<NamespaceRef>())
    for (const auto& [key, value] : (*space)->attributes)
      if (key == name) return value;
  return undefined(fmt::format("{}.{}", object.type_name(), name));
}

Value Evaluator::subscript(const Value& object, const Value& key) {
  if (object.is_undefined()) fail(undefined_name(object) + ", so it has no items");
  const auto* const index = key.get<int64_t>();
  if (object.map() && key.text())
    if (const Value* const found = object.map()->find(key.text()->bytes())) return *found;
  if (key.text()) return attribute(object, key.text()->bytes());
  if (!index || (!object.list() && !object.text()))
    return undefined(fmt::format("{}[{}]", object.type_name(), key.type_name()));
  const auto in_range = [&](int64_t size) { return *index < size && *index >= -size; };
  const auto at = [&](int64_t size) { return static_cast<size_t>(*index < 0 ? *index + size : *index); };
  if (object.list()) {
    const auto size = static_cast<int64_t>(object.list()->items.size());
    if (in_range(size)) return object.list()->items[at(size)];
  } else {
    const List characters = items_of(object, "a text");
    const auto size = static_cast<int64_t>(characters.size());
    if (in_range(size)) return characters[at(size)];
  }
  return undefined(fmt::format("{}[{}]", object.type_name(), *index));
}

Value Evaluator::evaluate_slice(const Expression& node) {
  const Value object = evaluate(*node.parts[0]);
  std::optional<int64_t> bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (!node.parts[i + 1]) continue;
    const Value bound = evaluate(*node.parts[i + 1]);
    if (bound.is_none()) continue;
    constexpr int64_t kFar = int64_t{1} << 40;
    bounds[i] = std::clamp(need_integer(bound, "the bound of a slice"), -kFar, kFar);
  }
  line_ = node.line;
  const int64_t step = bounds[2].value_or(1);
  if (step == 0) fail("the step of a slice is 0");
  if (object.is_undefined()) fail(undefined_name(object) + ", so it has no slices");
  if (!object.list() && !object.text())
    fail(fmt::format("a slice: got {}, expected a list or a text", object.type_name()));
  const List items = items_of(object, "a slice");
  List chosen;
  for (const size_t at : sliced(static_cast<int64_t>(items.size()), bounds[0], bounds[1], step))
    chosen.push_back(items[at]);
  if (object.list()) return list(std::move(chosen), object.list()->is_tuple);
  MarkedText joined;
  for (const Value& character : chosen) joined += *character.text();
  return text(std::move(joined));
}

List Evaluator::items_of(const Value& value, const std::string& what) {
  List items;
  if (value.is_undefined()) return items;
  if (value.list()) {
    items = value.list()->items;
  } else if (value.map()) {
    for (const auto& [key, item] : value.map()->entries) items.push_back(make_text(key));
  } else if (const MarkedText* const whole = value.text()) {
    for (size_t at = 0; at < whole->size();) {
      const size_t size = decode_utf8(whole->bytes(), at).size;
      items.push_back(make_text(whole->substr(at, size)));
      at += size;
    }
  } else {
    fail(fmt::format("{}: got {}, expected a list", what, value.type_name()));
  }
  spend(items.size());
  return items;
}

void Evaluator::check_size(size_t bytes) const {
  if (bytes > limits_.text_bytes) fail(fmt::format("a text grows beyond {} bytes", limits_.text_bytes));
}

Value Evaluator::text(MarkedText bytes) {
  spend_bytes(bytes.size());
  check_size(bytes.size());
  return make_text(std::move(bytes));
}

Value Evaluator::list(List items, bool is_tuple) {
  spend(items.size());
  return make_list(std::move(items), is_tuple);
}

std::vector<std::optional<Value>> Evaluator::bind(const std::string& what, const Arguments& arguments,
                                                  std::initializer_list<const char*> names) {
  std::vector<std::optional<Value>> bound(names.size());
  if (arguments.positional.size() > names.size())
    fail(fmt::format("{}: got {} arguments, expected at most {}", what, arguments.positional.size(),
                     names.size()));
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = arguments.positional[i];
  for (const auto& [key, value] : arguments.named) {
    const auto found = std::ranges::find_if(names, [&, &key = key](const char* name) { return key == name; });
    if (found == names.end()) fail(fmt::format("{}: got the argument '{}', which is not known", what, key));
    auto& place = bound[static_cast<size_t>(found - names.begin())];
    if (place) fail(fmt::format("{}: got the argument '{}' twice", what, key));
    place = value;
  }
  return bound;
}

const MarkedText& Evaluator::need_text(const Value& value, const std::string& what) const {
  if (value.is_undefined()) fail(fmt::format("{}: {}, expected a text", what, undefined_name(value)));
  if (!value.text()) fail(fmt::format("{}: got {}, expected a text", what, value.type_name()));
  return *value.text();
}

int64_t Evaluator::need_integer(const Value& value, const std::string& what) const {
  if (const auto* const b = value.get<bool>()) return *b ? 1 : 0;
  const auto* const number = value.get<int64_t>();
  if (!number) fail(fmt::format("{}: got {}, expected an integer", what, value.type_name()));
  return *number;
}

}  // namespace athanor::text::chat_template
