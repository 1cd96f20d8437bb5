// The values of a template: what Python has in Jinja, as far as chat templates use it.
//
//   Value list = make_list({Value(int64_t{1}), make_text("two")});
//   list.is_true();                    // true
//   MarkedText shown = list.repr();   // [1, 'two']
//
// Lists, maps and texts are shared and never change, but for the attributes of a namespace. A value never holds itself:
// a namespace cannot be stored in a namespace. Nesting is bounded by kMaxNesting (Error). Thread rule: plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "athanor/text/chat_template/marked_text.h"

namespace athanor::text::chat_template {

constexpr int kMaxNesting = 100;

class Value;
class Evaluator;
struct Arguments;
struct Map;
using List = std::vector<Value>;

struct Undefined {
  std::string what;  // 'name', or a sentence that says which attribute is missing
};
struct None {};
struct ListBody {
  List items;
  bool is_tuple = false;
  int nesting = 1;
  bool holds_namespace = false;
};
struct NamespaceBody {
  std::vector<std::pair<std::string, Value>> attributes;
};
struct CallableBody {
  std::string name;
  std::function<Value(Evaluator&, const Arguments&)> call;
};

using TextRef = std::shared_ptr<const MarkedText>;
using ListRef = std::shared_ptr<const ListBody>;
using MapRef = std::shared_ptr<const Map>;
using NamespaceRef = std::shared_ptr<NamespaceBody>;
using CallableRef = std::shared_ptr<const CallableBody>;

class Value {
 public:
  using Held = std::variant<Undefined, None, bool, int64_t, double, TextRef, ListRef, MapRef, NamespaceRef,
                            CallableRef>;

  Value() = default;  // undefined
  Value(Held held) : held_(std::move(held)) {}
  explicit Value(bool value) : held_(value) {}
  explicit Value(int64_t value) : held_(value) {}
  explicit Value(double value) : held_(value) {}

  template <typename T>
  const T* get() const {
    return std::get_if<T>(&held_);
  }
  bool is_undefined() const { return get<Undefined>() != nullptr; }
  bool is_none() const { return get<None>() != nullptr; }
  bool is_number() const { return get<int64_t>() || get<double>(); }
  const MarkedText* text() const { return get<TextRef>() ? get<TextRef>()->get() : nullptr; }
  const ListBody* list() const { return get<ListRef>() ? get<ListRef>()->get() : nullptr; }
  const Map* map() const { return get<MapRef>() ? get<MapRef>()->get() : nullptr; }

  const char* type_name() const;  // as Python names it: str, int, list, ...
  bool is_true() const;
  int nesting() const;
  bool holds_namespace() const;
  MarkedText shown() const;  // what {{ value }} writes
  MarkedText repr() const;   // as inside a list that is shown

 private:
  Held held_;
};

// Keys in the order in which they were put.
struct Map {
  std::vector<std::pair<MarkedText, Value>> entries;
  std::unordered_map<std::string, size_t> places;
  int nesting = 1;
  bool holds_namespace = false;

  const Value* find(const std::string& key) const;
  void put(MarkedText key, Value value);
};

Value make_text(std::string_view bytes, Origin origin = kFromTemplate);
Value make_text(MarkedText text);
Value make_list(List items, bool is_tuple = false);
Value make_map(Map map);

bool equal(const Value& a, const Value& b);
// Less than, equal, greater as -1, 0, 1; none for values that have no order.
bool compare(const Value& a, const Value& b, int& order);

std::string float_text(double value);                        // as Python writes it
MarkedText mapped_case(const MarkedText& text, bool upper);  // of each character
int64_t count_characters(const MarkedText& text);

}  // namespace athanor::text::chat_template
