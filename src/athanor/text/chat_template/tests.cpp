#include "athanor/text/chat_template/tests.h"

#include <fmt/format.h>

#include <map>

namespace athanor::text::chat_template {
namespace {

using Test = bool (*)(Evaluator& self, const Value& value, const Value& other);

struct Entry {
  Test test;
  bool takes_value;  // one argument; false: none
};

bool is_bool(const Value& value, bool expected) {
  return value.get<bool>() && *value.get<bool>() == expected;
}

bool is_divisible(Evaluator& self, const Value& value, const Value& other) {
  const int64_t divisor = self.need_integer(other, "divisibleby");
  if (divisor == 0) self.fail("divisibleby: the divisor is 0");
  return divisor == -1 || self.need_integer(value, "divisibleby") % divisor == 0;
}

bool is_ordered(Evaluator& self, const Value& a, const Value& b, bool less, bool same) {
  int order = 0;
  if (!compare(a, b, order))
    self.fail(fmt::format("got {} and {}, which have no order", a.type_name(), b.type_name()));
  return order == 0 ? same : (order < 0) == less;
}

bool is_in(Evaluator& self, const Value& value, const Value& container) {
  if (container.text() && !value.text())
    self.fail(fmt::format("in: got {}, expected a text", value.type_name()));
  if (container.text()) return container.text()->bytes().find(value.text()->bytes()) != std::string::npos;
  if (container.map()) return value.text() && container.map()->find(value.text()->bytes());
  for (const Value& item : self.items_of(container, "in"))
    if (equal(item, value)) return true;
  return false;
}

bool has_case(const Value& value, bool upper) {
  const MarkedText* const text = value.text();
  return text && mapped_case(*text, upper).bytes() == text->bytes() &&
         mapped_case(*text, !upper).bytes() != text->bytes();
}

bool is_iterable(const Value& v) {
  return v.text() || v.list() || v.map() || v.is_undefined();
}

const std::map<std::string_view, Entry>& tests() {
  static const std::map<std::string_view, Entry> all = {
      {"defined", {[](Evaluator&, const Value& v, const Value&) { return !v.is_undefined(); }, false}},
      {"undefined", {[](Evaluator&, const Value& v, const Value&) { return v.is_undefined(); }, false}},
      {"none", {[](Evaluator&, const Value& v, const Value&) { return v.is_none(); }, false}},
      {"boolean", {[](Evaluator&, const Value& v, const Value&) { return v.get<bool>() != nullptr; }, false}},
      {"true", {[](Evaluator&, const Value& v, const Value&) { return is_bool(v, true); }, false}},
      {"false", {[](Evaluator&, const Value& v, const Value&) { return is_bool(v, false); }, false}},
      {"integer",
       {[](Evaluator&, const Value& v, const Value&) { return v.get<int64_t>() != nullptr; }, false}},
      {"float", {[](Evaluator&, const Value& v, const Value&) { return v.get<double>() != nullptr; }, false}},
      {"number",
       {[](Evaluator&, const Value& v, const Value&) { return v.is_number() || v.get<bool>(); }, false}},
      {"string", {[](Evaluator&, const Value& v, const Value&) { return v.text() != nullptr; }, false}},
      {"mapping", {[](Evaluator&, const Value& v, const Value&) { return v.map() != nullptr; }, false}},
      {"sequence", {[](Evaluator&, const Value& v, const Value&) { return is_iterable(v); }, false}},
      {"iterable", {[](Evaluator&, const Value& v, const Value&) { return is_iterable(v); }, false}},
      {"callable",
       {[](Evaluator&, const Value& v, const Value&) { return v.get<CallableRef>() != nullptr; }, false}},
      {"lower", {[](Evaluator&, const Value& v, const Value&) { return has_case(v, false); }, false}},
      {"upper", {[](Evaluator&, const Value& v, const Value&) { return has_case(v, true); }, false}},
      {"odd",
       {[](Evaluator& s, const Value& v, const Value&) { return s.need_integer(v, "odd") % 2 != 0; }, false}},
      {"even",
       {[](Evaluator& s, const Value& v, const Value&) { return s.need_integer(v, "even") % 2 == 0; },
        false}},
      {"divisibleby", {is_divisible, true}},
      {"in", {is_in, true}},
      {"sameas",
       {[](Evaluator&, const Value& v, const Value& o) {
          return v.type_name() == o.type_name() && equal(v, o);
        },
        true}},
  };
  return all;
}

std::string_view without_alias(std::string_view name) {
  if (name == "eq" || name == "equalto") return "==";
  if (name == "ne") return "!=";
  if (name == "lt" || name == "lessthan") return "<";
  if (name == "gt" || name == "greaterthan") return ">";
  if (name == "le") return "<=";
  return name == "ge" ? ">=" : name;
}

bool is_comparison(std::string_view word) {
  return word == "==" || word == "!=" || word == "<" || word == ">" || word == "<=" || word == ">=";
}

}  // namespace

bool is_test(std::string_view name) {
  return tests().contains(name) || is_comparison(without_alias(name));
}

bool apply_test(Evaluator& self, const std::string& name, const Value& value, const Arguments& arguments) {
  const std::string_view word = without_alias(name);
  const bool compares = is_comparison(word);
  const auto found = tests().find(word);
  if (!compares && found == tests().end())
    self.fail(fmt::format("got the test '{}', which is not known", name));
  const size_t expected = compares || found->second.takes_value ? 1 : 0;
  if (arguments.positional.size() != expected || !arguments.named.empty())
    self.fail(fmt::format("the test '{}' got {} arguments, expected {}", name,
                          arguments.positional.size() + arguments.named.size(), expected));
  const Value other = expected > 0 ? arguments.positional[0] : Value();
  if (word == "==" || word == "!=") return equal(value, other) == (word == "==");
  if (compares) return is_ordered(self, value, other, word[0] == '<', word.size() == 2);
  return found->second.test(self, value, other);
}

}  // namespace athanor::text::chat_template
