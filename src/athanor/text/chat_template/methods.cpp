#include "athanor/text/chat_template/methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "athanor/text/unicode.h"

namespace athanor::text::chat_template {
namespace {

// White space as Python has it: Unicode's, and the four separators of ASCII.
bool is_python_space(uint32_t c) {
  return (c >= 0x1C && c <= 0x1F) || is_space(c);
}

bool is_line_end(uint32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

std::vector<size_t> character_starts(const std::string& bytes) {
  std::vector<size_t> starts;
  for (size_t at = 0; at < bytes.size(); at += decode_utf8(bytes, at).size) starts.push_back(at);
  starts.push_back(bytes.size());
  return starts;
}

Value number(int64_t value) {
  return Value(value);
}

std::string optional_text(Evaluator& self, const std::optional<Value>& value, const std::string& what) {
  return self.need_text(*value, what).bytes();
}

Value strip(Evaluator& self, const Value& object, const std::string& name, const Arguments& arguments) {
  const auto bound = self.bind(name, arguments, {"chars"});
  std::optional<std::string> characters;
  if (bound[0] && !bound[0]->is_none()) characters = optional_text(self, bound[0], name);
  return self.text(stripped(*object.text(), characters, name != "rstrip", name != "lstrip"));
}

bool has_affix(const std::string& text, const std::string& affix, bool at_start) {
  return at_start ? text.starts_with(affix) : text.ends_with(affix);
}

Value affix(Evaluator& self, const Value& object, const std::string& name, const Arguments& arguments) {
  const auto bound = self.bind(name, arguments, {"prefix"});
  if (!bound[0]) self.fail(name + ": got no argument, expected a text");
  const bool at_start = name == "startswith";
  const std::string& text = object.text()->bytes();
  if (!bound[0]->list()) return Value(has_affix(text, optional_text(self, bound[0], name), at_start));
  return Value(std::ranges::any_of(bound[0]->list()->items, [&](const Value& item) {
    return has_affix(text, self.need_text(item, name).bytes(), at_start);
  }));
}

Value remove_affix(Evaluator& self, const Value& object, const std::string& name,
                   const Arguments& arguments) {
  const auto bound = self.bind(name, arguments, {"affix"});
  if (!bound[0]) self.fail(name + ": got no argument, expected a text");
  const std::string part = optional_text(self, bound[0], name);
  const MarkedText& text = *object.text();
  const bool at_start = name == "removeprefix";
  if (!has_affix(text.bytes(), part, at_start)) return object;
  return self.text(at_start ? text.substr(part.size()) : text.substr(0, text.size() - part.size()));
}

// The pieces between white space. Behind `most` cuts the rest is one piece, with the white space at its far side.
List split_at_space(const MarkedText& text, int64_t most, bool from_right) {
  const std::vector<size_t> starts = character_starts(text.bytes());
  const size_t count = starts.size() - 1;
  const auto is_space_at = [&](size_t i) {
    return is_python_space(decode_utf8(text.bytes(), starts[from_right ? count - 1 - i : i]).value);
  };
  const auto piece = [&](size_t from, size_t to) {
    const size_t begin = starts[from_right ? count - to : from], end = starts[from_right ? count - from : to];
    return make_text(text.substr(begin, end - begin));
  };
  List pieces;
  for (size_t at = 0; at < count;) {
    while (at < count && is_space_at(at)) ++at;
    if (at == count) break;
    size_t end = at;
    while (end < count && (static_cast<int64_t>(pieces.size()) == most || !is_space_at(end))) ++end;
    pieces.push_back(piece(at, end));
    at = end;
  }
  if (from_right) std::ranges::reverse(pieces);
  return pieces;
}

Value split(Evaluator& self, const Value& object, const std::string& name, const Arguments& arguments) {
  const auto bound = self.bind(name, arguments, {"sep", "maxsplit"});
  const MarkedText& text = *object.text();
  const bool from_right = name == "rsplit";
  const int64_t most = bound[1] ? self.need_integer(*bound[1], name) : -1;
  if (!bound[0] || bound[0]->is_none()) {
    self.spend_bytes(text.size());
    return self.list(split_at_space(text, most, from_right));
  }
  const std::string separator = optional_text(self, bound[0], name);
  if (separator.empty()) self.fail(name + ": the separator is empty");
  List pieces;
  size_t begin = 0, end = text.size();
  while (most < 0 || static_cast<int64_t>(pieces.size()) < most) {
    self.spend(1);
    if (from_right) {
      const size_t found =
          end < separator.size() ? std::string::npos : text.bytes().rfind(separator, end - separator.size());
      if (found == std::string::npos) break;
      pieces.push_back(make_text(text.substr(found + separator.size(), end - found - separator.size())));
      end = found;
    } else {
      const size_t found = text.bytes().find(separator, begin);
      if (found == std::string::npos) break;
      pieces.push_back(make_text(text.substr(begin, found - begin)));
      begin = found + separator.size();
    }
  }
  pieces.push_back(make_text(text.substr(begin, end - begin)));
  if (from_right) std::ranges::reverse(pieces);
  return self.list(std::move(pieces));
}

Value partition(Evaluator& self, const Value& object, const std::string& name, const Arguments& arguments) {
  const auto bound = self.bind(name, arguments, {"sep"});
  if (!bound[0]) self.fail(name + ": got no argument, expected a text");
  const std::string separator = optional_text(self, bound[0], name);
  if (separator.empty()) self.fail(name + ": the separator is empty");
  const MarkedText& text = *object.text();
  const bool first = name == "partition";
  const size_t found = first ? text.bytes().find(separator) : text.bytes().rfind(separator);
  if (found == std::string::npos)
    return first ? self.list({object, make_text(""), make_text("")}, true)
                 : self.list({make_text(""), make_text(""), object}, true);
  return self.list({make_text(text.substr(0, found)), make_text(text.substr(found, separator.size())),
                    make_text(text.substr(found + separator.size()))},
                   true);
}

Value split_lines(Evaluator& self, const Value& object, const std::string& name, const Arguments& arguments) {
  const auto bound = self.bind(name, arguments, {"keepends"});
  const bool keep = bound[0] && bound[0]->is_true();
  const MarkedText& text = *object.text();
  List lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text.bytes(), at);
    size_t end = at + c.size;
    if (is_line_end(c.value)) {
      if (c.value == '\r' && end < text.size() && text.bytes()[end] == '\n') ++end;
      lines.push_back(make_text(text.substr(begin, (keep ? end : at) - begin)));
      begin = end;
    }
    at = end;
  }
  if (begin < text.size()) lines.push_back(make_text(text.substr(begin)));
  return self.list(std::move(lines));
}

Value find(Evaluator& self, const Value& object, const std::string& name, const Arguments& arguments) {
  const auto bound = self.bind(name, arguments, {"sub"});
  if (!bound[0]) self.fail(name + ": got no argument, expected a text");
  const std::string& text = object.text()->bytes();
  const std::string part = optional_text(self, bound[0], name);
  if (name == "count") {
    if (part.empty()) return number(count_characters(*object.text()) + 1);
    int64_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
      ++found;
    return number(found);
  }
  const size_t found = name == "find" ? text.find(part) : text.rfind(part);
  return number(found == std::string::npos ? -1 : count_code_points(std::string_view(text).substr(0, found)));
}

Value replace(Evaluator& self, const Value& object, const std::string& name, const Arguments& arguments) {
  const auto bound = self.bind(name, arguments, {"old", "new", "count"});
  if (!bound[0] || !bound[1]) self.fail("replace: expected two texts");
  return self.text(replaced(self, *object.text(), self.need_text(*bound[0], name),
                            self.need_text(*bound[1], name),
                            bound[2] ? self.need_integer(*bound[2], name) : -1));
}

Value join(Evaluator& self, const Value& object, const std::string& name, const Arguments& arguments) {
  const auto bound = self.bind(name, arguments, {"iterable"});
  MarkedText joined;
  bool is_first = true;
  for (const Value& item : self.items_of(bound[0].value_or(Value()), name)) {
    self.spend_bytes(object.text()->size());
    self.check_size(joined.size());
    if (!std::exchange(is_first, false)) joined += *object.text();
    joined += self.need_text(item, name);
  }
  return self.text(std::move(joined));
}

// Python's title(): a letter behind a letter is small, any other is a capital.
MarkedText titled(const MarkedText& text) {
  MarkedText out;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text.bytes(), at);
    out += mapped_case(text.substr(at, c.size), !in_word);
    in_word = is_letter(c.value);
    at += c.size;
  }
  return out;
}

Value change_case(Evaluator& self, const Value& object, const std::string& name, const Arguments& arguments) {
  self.bind(name, arguments, {});
  const MarkedText& text = *object.text();
  if (name == "title") return self.text(titled(text));
  if (name == "capitalize") return self.text(capitalized(text));
  return self.text(mapped_case(text, name == "upper"));
}

Value is_class(Evaluator& self, const Value& object, const std::string& name, const Arguments& arguments) {
  self.bind(name, arguments, {});
  const std::string& text = object.text()->bytes();
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    const bool fits = name == "isspace"   ? is_python_space(c.value)
                      : name == "isalpha" ? is_letter(c.value)
                                          : is_number(c.value);
    if (!fits) return Value(false);
    at += c.size;
  }
  return Value(!text.empty());
}

Value get(Evaluator& self, const Value& object, const std::string& name, const Arguments& arguments) {
  const auto bound = self.bind(name, arguments, {"key", "default"});
  if (!bound[0]) self.fail("get: got no key");
  const Value* const found = bound[0]->text() ? object.map()->find(bound[0]->text()->bytes()) : nullptr;
  return found ? *found : bound[1].value_or(Value(Value::Held(None{})));
}

Value entries(Evaluator& self, const Value& object, const std::string& name, const Arguments& arguments) {
  self.bind(name, arguments, {});
  List items;
  for (const auto& [key, value] : object.map()->entries) {
    if (name == "keys")
      items.push_back(make_text(key));
    else
      items.push_back(name == "values" ? value : make_list({make_text(key), value}, true));
  }
  return self.list(std::move(items));
}

Value copy(Evaluator& self, const Value& object, const std::string& name, const Arguments& arguments) {
  self.bind(name, arguments, {});
  return object;
}

}  // namespace

Method find_method(const Value& object, std::string_view name) {
  static const std::map<std::string_view, Method> of_text = {{"strip", strip},
                                                             {"lstrip", strip},
                                                             {"rstrip", strip},
                                                             {"startswith", affix},
                                                             {"endswith", affix},
                                                             {"split", split},
                                                             {"rsplit", split},
                                                             {"splitlines", split_lines},
                                                             {"replace", replace},
                                                             {"join", join},
                                                             {"upper", change_case},
                                                             {"lower", change_case},
                                                             {"title", change_case},
                                                             {"capitalize", change_case},
                                                             {"find", find},
                                                             {"rfind", find},
                                                             {"count", find},
                                                             {"isspace", is_class},
                                                             {"isalpha", is_class},
                                                             {"isdigit", is_class},
                                                             {"partition", partition},
                                                             {"rpartition", partition},
                                                             {"removeprefix", remove_affix},
                                                             {"removesuffix", remove_affix}};
  static const std::map<std::string_view, Method> of_map = {
      {"get", get}, {"items", entries}, {"keys", entries}, {"values", entries}, {"copy", copy}};
  if (!object.text() && !object.map()) return nullptr;
  const auto& methods = object.text() ? of_text : of_map;
  const auto found = methods.find(name);
  return found == methods.end() ? nullptr : found->second;
}

MarkedText stripped(const MarkedText& text, const std::optional<std::string>& characters, bool left,
                    bool right) {
  const std::string& bytes = text.bytes();
  const auto is_taken = [&](std::string_view character, uint32_t value) {
    return characters ? characters->find(character) != std::string::npos : is_python_space(value);
  };
  size_t begin = 0, end = bytes.size();
  while (left && begin < end) {
    const CodePoint c = decode_utf8(bytes, begin);
    if (!is_taken(std::string_view(bytes).substr(begin, c.size), c.value)) break;
    begin += c.size;
  }
  while (right && end > begin) {
    size_t last = end - 1;
    while (last > begin && end - last < 4 && (static_cast<uint8_t>(bytes[last]) & 0xC0) == 0x80) --last;
    const CodePoint c = decode_utf8(bytes, last);
    if (!is_taken(std::string_view(bytes).substr(last, end - last), c.value)) break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

MarkedText capitalized(const MarkedText& text) {
  if (text.empty()) return {};
  const size_t first = decode_utf8(text.bytes(), 0).size;
  MarkedText out = mapped_case(text.substr(0, first), true);
  out += mapped_case(text.substr(first), false);
  return out;
}

MarkedText replaced(Evaluator& self, const MarkedText& text, const MarkedText& old_part,
                    const MarkedText& new_part, int64_t count) {
  MarkedText out;
  size_t done = 0;
  const std::string& bytes = text.bytes();
  for (int64_t i = 0; count < 0 || i < count; ++i) {
    // An empty part stands before each character and at the end.
    size_t found = 0;
    if (!old_part.empty())
      found = bytes.find(old_part.bytes(), done);
    else if (i > 0)
      found = done < bytes.size() ? done + decode_utf8(bytes, done).size : std::string::npos;
    if (found == std::string::npos) break;
    self.spend_bytes(32 + new_part.size());
    self.check_size(out.size() + new_part.size());
    out += text.substr(done, found - done);
    out += new_part;
    done = found + old_part.size();
  }
  out += text.substr(done);
  return out;
}

}  // namespace athanor::text::chat_template
