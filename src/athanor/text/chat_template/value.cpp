#include "athanor/text/chat_template/value.h"

#include <fmt/format.h>
#include <unicode/ustring.h>

#include <algorithm>
#include <cmath>

#include "athanor/base/check.h"
#include "athanor/text/unicode.h"

namespace athanor::text::chat_template {
namespace {

double as_number(const Value& value) {
  if (const auto* const b = value.get<bool>()) return *b ? 1 : 0;
  if (const auto* const i = value.get<int64_t>()) return static_cast<double>(*i);
  return *value.get<double>();
}

bool is_numeric(const Value& value) {
  return value.is_number() || value.get<bool>();
}

void check_nesting(int nesting) {
  check(nesting <= kMaxNesting, "a value is nested deeper than {} levels", kMaxNesting);
}

// A string as Python shows it in a list: in single quotes, unless it has one and no double one.
MarkedText quoted(const MarkedText& text) {
  const std::string& bytes = text.bytes();
  const bool has_single = bytes.find('\'') != std::string::npos,
             has_double = bytes.find('"') != std::string::npos;
  const std::string quote = has_single && !has_double ? "\"" : "'";
  MarkedText out(quote);
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint c = decode_utf8(bytes, at);
    if (c.value == '\n' || c.value == '\t' || c.value == '\r')
      out.append(c.value == '\n' ? "\\n" : c.value == '\t' ? "\\t" : "\\r", text.origin(at));
    else if (c.value == '\\' || (c.value == '\'' && quote == "'"))
      out.append(c.value == '\\' ? "\\\\" : "\\'", text.origin(at));
    else if (c.value < 0x20 || c.value == 0x7F)
      out.append(fmt::format("\\x{:02x}", c.value), text.origin(at));
    else
      out += text.substr(at, c.size);
    at += c.size;
  }
  out.append(quote, kFromTemplate);
  return out;
}

}  // namespace

const char* Value::type_name() const {
  static constexpr const char* kNames[] = {"undefined", "none", "bool", "int",       "float",
                                           "str",       "list", "dict", "namespace", "function"};
  if (list() && list()->is_tuple) return "tuple";
  return kNames[held_.index()];
}

bool Value::is_true() const {
  if (is_undefined() || is_none()) return false;
  if (const auto* const b = get<bool>()) return *b;
  if (const auto* const i = get<int64_t>()) return *i != 0;
  if (const auto* const d = get<double>()) return *d != 0;
  if (text()) return !text()->empty();
  if (list()) return !list()->items.empty();
  if (map()) return !map()->entries.empty();
  return true;
}

int Value::nesting() const {
  return list() ? list()->nesting : map() ? map()->nesting : 0;
}

bool Value::holds_namespace() const {
  return get<NamespaceRef>() || (list() && list()->holds_namespace) || (map() && map()->holds_namespace);
}

MarkedText Value::shown() const {
  if (is_undefined()) return {};
  if (text()) return *text();
  return repr();
}

MarkedText Value::repr() const {
  if (is_undefined()) return MarkedText("Undefined");
  if (is_none()) return MarkedText("None");
  if (const auto* const b = get<bool>()) return MarkedText(*b ? "True" : "False");
  if (const auto* const i = get<int64_t>()) return MarkedText(std::to_string(*i));
  if (const auto* const d = get<double>()) return MarkedText(float_text(*d));
  if (text()) return quoted(*text());
  MarkedText out;
  if (list()) {
    out.append(list()->is_tuple ? "(" : "[", kFromTemplate);
    for (size_t i = 0; i < list()->items.size(); ++i) {
      if (i > 0) out.append(", ", kFromTemplate);
      out += list()->items[i].repr();
    }
    if (list()->is_tuple && list()->items.size() == 1) out.append(",", kFromTemplate);
    out.append(list()->is_tuple ? ")" : "]", kFromTemplate);
  } else if (map()) {
    out.append("{", kFromTemplate);
    for (size_t i = 0; i < map()->entries.size(); ++i) {
      if (i > 0) out.append(", ", kFromTemplate);
      out += quoted(map()->entries[i].first);
      out.append(": ", kFromTemplate);
      out += map()->entries[i].second.repr();
    }
    out.append("}", kFromTemplate);
  } else {
    out.append(fmt::format("<{}>", type_name()), kFromTemplate);
  }
  return out;
}

const Value* Map::find(const std::string& key) const {
  const auto found = places.find(key);
  return found == places.end() ? nullptr : &entries[found->second].second;
}

void Map::put(MarkedText key, Value value) {
  nesting = std::max(nesting, value.nesting() + 1);
  holds_namespace = holds_namespace || value.holds_namespace();
  check_nesting(nesting);
  const auto [place, is_new] = places.try_emplace(key.bytes(), entries.size());
  if (is_new)
    entries.emplace_back(std::move(key), std::move(value));
  else
    entries[place->second].second = std::move(value);
}

Value make_text(std::string_view bytes, Origin origin) {
  return Value(std::make_shared<const MarkedText>(bytes, origin));
}

Value make_text(MarkedText text) {
  return Value(std::make_shared<const MarkedText>(std::move(text)));
}

Value make_list(List items, bool is_tuple) {
  ListBody body{.items = std::move(items), .is_tuple = is_tuple};
  for (const Value& item : body.items) {
    body.nesting = std::max(body.nesting, item.nesting() + 1);
    body.holds_namespace = body.holds_namespace || item.holds_namespace();
  }
  check_nesting(body.nesting);
  return Value(std::make_shared<const ListBody>(std::move(body)));
}

Value make_map(Map map) {
  return Value(std::make_shared<const Map>(std::move(map)));
}

bool equal(const Value& a, const Value& b) {
  if (is_numeric(a) && is_numeric(b)) return as_number(a) == as_number(b);
  if (a.text() && b.text()) return a.text()->bytes() == b.text()->bytes();
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.list() && b.list())
    return a.list()->is_tuple == b.list()->is_tuple &&
           std::ranges::equal(a.list()->items, b.list()->items, equal);
  if (a.map() && b.map())
    return a.map()->entries.size() == b.map()->entries.size() &&
           std::ranges::all_of(a.map()->entries, [&](const auto& entry) {
             const Value* const other = b.map()->find(entry.first.bytes());
             return other && equal(entry.second, *other);
           });
  if (a.get<NamespaceRef>() && b.get<NamespaceRef>()) return *a.get<NamespaceRef>() == *b.get<NamespaceRef>();
  return a.get<CallableRef>() && b.get<CallableRef>() && *a.get<CallableRef>() == *b.get<CallableRef>();
}

bool compare(const Value& a, const Value& b, int& order) {
  if (is_numeric(a) && is_numeric(b)) {
    const double x = as_number(a), y = as_number(b);
    order = x < y ? -1 : x > y ? 1 : 0;
    return true;
  }
  if (a.text() && b.text()) {  // UTF-8 has the order of code points
    const int sign = a.text()->bytes().compare(b.text()->bytes());
    order = sign < 0 ? -1 : sign > 0 ? 1 : 0;
    return true;
  }
  if (!a.list() || !b.list()) return false;
  const List &x = a.list()->items, &y = b.list()->items;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (!compare(x[i], y[i], order)) return false;
    if (order != 0) return true;
  }
  order = x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
  return true;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);  // the shortest that reads back
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

MarkedText mapped_case(const MarkedText& text, bool upper) {
  MarkedText out;
  const std::string& bytes = text.bytes();
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint c = decode_utf8(bytes, at);
    if (c.value == kInvalidByte) {
      out += text.substr(at, c.size);
    } else {
      UChar from[2], to[8];
      int32_t length = 0;
      UErrorCode status = U_ZERO_ERROR;
      U16_APPEND_UNSAFE(from, length, c.value);
      const int32_t size = upper ? u_strToUpper(to, 8, from, length, "", &status)
                                 : u_strToLower(to, 8, from, length, "", &status);
      std::string mapped;
      for (int32_t i = 0; i < size && U_SUCCESS(status);) {
        UChar32 code_point = 0;
        U16_NEXT(to, i, size, code_point);
        append_utf8(mapped, static_cast<uint32_t>(code_point));
      }
      out.append(mapped, text.origin(at));
    }
    at += c.size;
  }
  return out;
}

int64_t count_characters(const MarkedText& text) {
  return count_code_points(text.bytes());
}

}  // namespace athanor::text::chat_template
