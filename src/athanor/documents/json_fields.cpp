#include "athanor/documents/json_fields.h"

#include <algorithm>
#include <array>

#include "athanor/documents/json_syntax.h"

namespace athanor::documents {
namespace {

size_t behind_json_blanks(std::string_view json, size_t at) {
  return std::min(json.find_first_not_of(kJsonBlanks, at), json.size());
}

// Behind the string whose opening quote stands at `open`. Most strings have no quote inside, so the search goes from
// quote to quote.
size_t behind_json_string(std::string_view json, size_t open) {
  for (size_t quote = json.find('"', open + 1); quote != std::string_view::npos;
       quote = json.find('"', quote + 1)) {
    size_t backslashes = 0;
    while (json[quote - 1 - backslashes] == '\\') ++backslashes;  // ends at the opening quote
    if (backslashes % 2 == 0) return quote + 1;
  }
  return json.size();
}

size_t behind_json_value(std::string_view json, size_t at) {
  if (json[at] == '"') return behind_json_string(json, at);
  if (json[at] != '{' && json[at] != '[') return std::min(json.find_first_of(",]} \t\r\n", at), json.size());
  size_t depth = 0;
  while (at < json.size()) {
    const char c = json[at];
    if (c == '"') {
      at = behind_json_string(json, at);
      continue;
    }
    depth += c == '{' || c == '[';
    ++at;
    if ((c == '}' || c == ']') && --depth == 0) break;
  }
  return at;
}

// Goes over the fields of a valid object.
class JsonFieldWalk {
 public:
  explicit JsonFieldWalk(std::string_view object)
      : object_(object), at_(behind_json_blanks(object, behind_json_blanks(object, 0) + 1)) {}

  bool next() {
    if (at_ >= object_.size() || object_[at_] != '"') return false;
    const size_t key_end = behind_json_string(object_, at_);
    const size_t value_begin = behind_json_blanks(object_, behind_json_blanks(object_, key_end) + 1);
    if (value_begin >= object_.size()) return false;
    const size_t value_end = behind_json_value(object_, value_begin);
    key_ = object_.substr(at_, key_end - at_);
    value_ = object_.substr(value_begin, value_end - value_begin);
    at_ = behind_json_blanks(object_, value_end);
    if (at_ < object_.size() && object_[at_] == ',') at_ = behind_json_blanks(object_, at_ + 1);
    return true;
  }
  std::string_view key() const { return key_; }  // with its quotes
  std::string_view value() const { return value_; }

 private:
  std::string_view object_, key_, value_;
  size_t at_;
};

constexpr std::array<bool, 256> escaped_bytes() {
  std::array<bool, 256> escaped{};
  for (size_t c = 0; c < 0x20; ++c) escaped[c] = true;
  escaped['"'] = escaped['\\'] = true;
  return escaped;
}
constexpr std::array<bool, 256> kEscapedBytes = escaped_bytes();

}  // namespace

void copy_json_fields(std::string_view object, const std::vector<JsonFieldPath>& left_out, std::string& out) {
  const size_t opened = out.size();
  out += '{';
  JsonFieldWalk walk(object);
  for (size_t index = 0; walk.next(); ++index) {
    bool leave_out = false;
    std::vector<JsonFieldPath> inside;
    for (const JsonFieldPath& path : left_out) {
      if (path.empty() || path[0] != index) continue;
      if (path.size() == 1) leave_out = true;
      if (path.size() > 1) inside.emplace_back(path.begin() + 1, path.end());
    }
    if (leave_out) continue;
    if (out.size() > opened + 1) out += ',';
    out.append(walk.key());
    out += ':';
    const size_t copied = out.size();
    if (inside.empty())
      out.append(walk.value());
    else
      copy_json_fields(walk.value(), inside, out);
    // A line end within a string is always written as an escape.
    if (out[copied] == '{' || out[copied] == '[')
      std::replace_if(
          out.begin() + static_cast<std::ptrdiff_t>(copied), out.end(),
          [](char c) { return c == '\n' || c == '\r'; }, ' ');
  }
  out += '}';
}

std::string_view json_value_at(std::string_view object, const JsonFieldPath& path) {
  for (const size_t place : path) {
    JsonFieldWalk walk(object);
    for (size_t index = 0; index <= place; ++index)
      if (!walk.next()) return {};
    object = walk.value();
  }
  return object;
}

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  out += '"';
  size_t from = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (!kEscapedBytes[byte]) continue;
    out.append(text.substr(from, at - from));
    from = at + 1;
    switch (byte) {
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '"':
      case '\\':
        out += '\\';
        out += text[at];
        break;
      default:
        out += "\\u00";
        out += kHexDigits[byte >> 4];
        out += kHexDigits[byte & 15];
    }
  }
  out.append(text.substr(from));
  out += '"';
}

}  // namespace athanor::documents
