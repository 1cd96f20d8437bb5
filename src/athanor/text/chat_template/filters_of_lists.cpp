#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "athanor/text/chat_template/filters.h"
#include "athanor/text/chat_template/tests.h"

namespace athanor::text::chat_template {
namespace {

Value without_value() {
  return Value(Value::Held(Undefined{"an item of an empty list"}));
}

Value length(Evaluator& self, const Value& input, const Arguments& arguments) {
  self.bind("length", arguments, {});
  if (input.text()) return Value(count_characters(*input.text()));
  return Value(static_cast<int64_t>(self.items_of(input, "length").size()));
}

Value otherwise(Evaluator& self, const Value& input, const Arguments& arguments) {
  const auto bound = self.bind("default", arguments, {"default_value", "boolean"});
  const bool is_missing = input.is_undefined() || (bound[1] && bound[1]->is_true() && !input.is_true());
  return is_missing ? bound[0].value_or(make_text("")) : input;
}

Value first(Evaluator& self, const Value& input, const Arguments& arguments) {
  self.bind("first", arguments, {});
  const List items = self.items_of(input, "first");
  return items.empty() ? without_value() : items.front();
}

Value last(Evaluator& self, const Value& input, const Arguments& arguments) {
  self.bind("last", arguments, {});
  const List items = self.items_of(input, "last");
  return items.empty() ? without_value() : items.back();
}

Value list(Evaluator& self, const Value& input, const Arguments& arguments) {
  self.bind("list", arguments, {});
  return self.list(self.items_of(input, "list"));
}

Value items(Evaluator& self, const Value& input, const Arguments& arguments) {
  self.bind("items", arguments, {});
  if (input.is_undefined()) return self.list({});
  if (!input.map()) self.fail(fmt::format("items: got {}, expected a map", input.type_name()));
  List entries;
  for (const auto& [key, value] : input.map()->entries)
    entries.push_back(make_list({make_text(key), value}, true));
  return self.list(std::move(entries));
}

Value reverse(Evaluator& self, const Value& input, const Arguments& arguments) {
  self.bind("reverse", arguments, {});
  List reversed = self.items_of(input, "reverse");
  std::ranges::reverse(reversed);
  if (!input.text()) return self.list(std::move(reversed));
  MarkedText text;
  for (const Value& character : reversed) text += *character.text();
  return self.text(std::move(text));
}

Value attribute_or(Evaluator& self, const Value& item, const std::optional<Value>& attribute) {
  if (!attribute || attribute->is_none()) return item;
  if (const auto* const index = attribute->get<int64_t>()) return value_at_path(item, std::to_string(*index));
  return value_at_path(item, self.need_text(*attribute, "attribute").bytes());
}

Value join(Evaluator& self, const Value& input, const Arguments& arguments) {
  const auto bound = self.bind("join", arguments, {"d", "attribute"});
  const MarkedText between = bound[0] ? bound[0]->shown() : MarkedText();
  MarkedText joined;
  bool is_first = true;
  for (const Value& item : self.items_of(input, "join")) {
    if (!std::exchange(is_first, false)) joined += between;
    joined += attribute_or(self, item, bound[1]).shown();
    self.spend_bytes(between.size());
    self.check_size(joined.size());
  }
  return self.text(std::move(joined));
}

Value map(Evaluator& self, const Value& input, const Arguments& arguments) {
  List mapped;
  const List all = self.items_of(input, "map");
  const auto named =
      std::ranges::find(arguments.named, "attribute", [](const auto& entry) { return entry.first; });
  if (named != arguments.named.end()) {
    const auto bound = self.bind("map", arguments, {"attribute", "default"});
    for (const Value& item : all) {
      Value value = attribute_or(self, item, bound[0]);
      if (value.is_undefined() && bound[1]) value = *bound[1];
      mapped.push_back(std::move(value));
    }
    return self.list(std::move(mapped));
  }
  if (arguments.positional.empty()) self.fail("map: expected the name of a filter or attribute=");
  const std::string name = self.need_text(arguments.positional[0], "map").bytes();
  if (name == "map")
    self.fail("map: got the filter 'map', expected another");  // it could call itself without end
  const Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named};
  for (const Value& item : all) mapped.push_back(apply_filter(self, name, item, rest));
  return self.list(std::move(mapped));
}

// select, reject, selectattr, rejectattr: [attribute,] [test, arguments of the test...]
Value choose(Evaluator& self, const Value& input, const Arguments& arguments, const char* name, bool keep,
             bool by_attribute) {
  if (!arguments.named.empty()) self.fail(fmt::format("{}: got arguments by name, expected none", name));
  size_t at = 0;
  std::optional<Value> attribute;
  if (by_attribute) {
    if (arguments.positional.empty()) self.fail(fmt::format("{}: got no attribute", name));
    attribute = arguments.positional[at++];
  }
  std::string test;
  Arguments rest;
  if (at < arguments.positional.size()) {
    test = self.need_text(arguments.positional[at++], name).bytes();
    rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(at),
                           arguments.positional.end());
  }
  List chosen;
  for (Value& item : self.items_of(input, name)) {
    self.spend(1);
    const Value value = attribute_or(self, item, attribute);
    const bool holds = test.empty() ? value.is_true() : apply_test(self, test, value, rest);
    if (holds == keep) chosen.push_back(std::move(item));
  }
  return self.list(std::move(chosen));
}

Value select(Evaluator& self, const Value& input, const Arguments& arguments) {
  return choose(self, input, arguments, "select", true, false);
}
Value reject(Evaluator& self, const Value& input, const Arguments& arguments) {
  return choose(self, input, arguments, "reject", false, false);
}
Value selectattr(Evaluator& self, const Value& input, const Arguments& arguments) {
  return choose(self, input, arguments, "selectattr", true, true);
}
Value rejectattr(Evaluator& self, const Value& input, const Arguments& arguments) {
  return choose(self, input, arguments, "rejectattr", false, true);
}

Value without_case(const Value& value) {
  return value.text() ? make_text(mapped_case(*value.text(), false)) : value;
}

struct Keyed {
  Value key, item;
};

// Sorted by key; equal keys stay in order.
void sort_keyed(Evaluator& self, std::vector<Keyed>& all, bool reversed) {
  for (size_t count = all.size(); count > 0; count /= 2) self.spend(all.size());
  std::ranges::stable_sort(all, [&](const Keyed& a, const Keyed& b) {
    int order = 0;
    if (!compare(a.key, b.key, order))
      self.fail(
          fmt::format("sort: got {} and {}, which have no order", a.key.type_name(), b.key.type_name()));
    return reversed ? order > 0 : order < 0;
  });
}

Value sorted_items(Evaluator& self, std::vector<Keyed> all, bool reversed) {
  sort_keyed(self, all, reversed);
  List result;
  for (Keyed& keyed : all) result.push_back(std::move(keyed.item));
  return self.list(std::move(result));
}

Value sort(Evaluator& self, const Value& input, const Arguments& arguments) {
  const auto bound = self.bind("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<Keyed> all;
  for (Value& item : self.items_of(input, "sort")) {
    Value key = attribute_or(self, item, bound[2]);
    all.push_back({bound[1] && bound[1]->is_true() ? std::move(key) : without_case(key), std::move(item)});
  }
  return sorted_items(self, std::move(all), bound[0] && bound[0]->is_true());
}

Value dictsort(Evaluator& self, const Value& input, const Arguments& arguments) {
  const auto bound = self.bind("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  if (!input.map()) self.fail(fmt::format("dictsort: got {}, expected a map", input.type_name()));
  const std::string by = bound[1] ? self.need_text(*bound[1], "dictsort").bytes() : "key";
  if (by != "key" && by != "value")
    self.fail(fmt::format("dictsort: got by='{}', expected key or value", by));
  std::vector<Keyed> all;
  for (const auto& [name, value] : input.map()->entries) {
    const Value key = by == "key" ? make_text(name) : value;
    all.push_back({bound[0] && bound[0]->is_true() ? key : without_case(key),
                   make_list({make_text(name), value}, true)});
  }
  return sorted_items(self, std::move(all), bound[2] && bound[2]->is_true());
}

Value unique(Evaluator& self, const Value& input, const Arguments& arguments) {
  const auto bound = self.bind("unique", arguments, {"case_sensitive", "attribute"});
  List kept, keys;
  for (Value& item : self.items_of(input, "unique")) {
    Value key = attribute_or(self, item, bound[1]);
    if (!bound[0] || !bound[0]->is_true()) key = without_case(key);
    self.spend(keys.size() + 1);
    if (std::ranges::any_of(keys, [&](const Value& known) { return equal(known, key); })) continue;
    keys.push_back(std::move(key));
    kept.push_back(std::move(item));
  }
  return self.list(std::move(kept));
}

Value extreme(Evaluator& self, const Value& input, const Arguments& arguments, bool largest) {
  const auto bound = self.bind(largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  std::vector<Keyed> all;
  for (Value& item : self.items_of(input, "max, min")) {
    Value key = attribute_or(self, item, bound[1]);
    all.push_back({bound[0] && bound[0]->is_true() ? std::move(key) : without_case(key), std::move(item)});
  }
  if (all.empty()) return without_value();
  sort_keyed(self, all, largest);
  return all.front().item;
}

Value largest(Evaluator& self, const Value& input, const Arguments& arguments) {
  return extreme(self, input, arguments, true);
}
Value smallest(Evaluator& self, const Value& input, const Arguments& arguments) {
  return extreme(self, input, arguments, false);
}

Value sum(Evaluator& self, const Value& input, const Arguments& arguments) {
  const auto bound = self.bind("sum", arguments, {"attribute", "start"});
  int64_t whole = 0;
  double fraction = 0;
  bool is_float = false;
  const auto add = [&](const Value& value) {
    if (const auto* const d = value.get<double>()) {
      is_float = true;
      fraction += *d;
    } else if (__builtin_add_overflow(whole, self.need_integer(value, "sum"), &whole)) {
      self.fail("sum: the result does not fit into 64 bits");
    }
  };
  if (bound[1]) add(*bound[1]);
  for (const Value& item : self.items_of(input, "sum")) add(attribute_or(self, item, bound[0]));
  return is_float ? Value(fraction + static_cast<double>(whole)) : Value(whole);
}

}  // namespace

Filter find_list_filter(std::string_view name) {
  static const std::map<std::string_view, Filter> filters = {{"count", length},
                                                             {"length", length},
                                                             {"d", otherwise},
                                                             {"default", otherwise},
                                                             {"first", first},
                                                             {"last", last},
                                                             {"list", list},
                                                             {"items", items},
                                                             {"reverse", reverse},
                                                             {"join", join},
                                                             {"map", map},
                                                             {"select", select},
                                                             {"reject", reject},
                                                             {"selectattr", selectattr},
                                                             {"rejectattr", rejectattr},
                                                             {"sort", sort},
                                                             {"unique", unique},
                                                             {"max", largest},
                                                             {"min", smallest},
                                                             {"sum", sum},
                                                             {"dictsort", dictsort}};
  const auto found = filters.find(name);
  return found == filters.end() ? nullptr : found->second;
}

Value value_at_path(const Value& value, std::string_view path) {
  Value now = value;
  while (true) {
    const size_t dot = path.find('.');
    const std::string part(path.substr(0, dot));
    Value next;
    if (now.map()) {
      if (const Value* const found = now.map()->find(part)) next = *found;
    } else if (const NamespaceRef* const space = now.get<NamespaceRef>()) {
      for (const auto& [key, held] : (*space)->attributes)
        if (key == part) next = held;
    } else if (now.list()) {
      size_t index = 0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
      if (error == std::errc() && end == part.data() + part.size() && index < now.list()->items.size())
        next = now.list()->items[index];
    }
    if (dot == std::string_view::npos || next.is_undefined()) return next;
    now = std::move(next);
    path.remove_prefix(dot + 1);
  }
}

bool is_filter(std::string_view name) {
  return find_text_filter(name) || find_list_filter(name);
}

Value apply_filter(Evaluator& self, const std::string& name, const Value& input, const Arguments& arguments) {
  Filter filter = find_text_filter(name);
  if (!filter) filter = find_list_filter(name);
  if (!filter) self.fail(fmt::format("got the filter '{}', which is not known", name));
  return filter(self, input, arguments);
}

}  // namespace athanor::text::chat_template
