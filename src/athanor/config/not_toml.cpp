#include "athanor/config/not_toml.h"

#include <algorithm>

#include "athanor/base/human.h"

namespace athanor::config {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kNameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

std::string_view line_of(std::string_view text, uint32_t number) {
  for (uint32_t line = 1; line < number; ++line) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

// The first line that is neither empty nor a comment.
std::string_view first_line(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const size_t start = line.find_first_not_of(kSpace);
    if (start != std::string_view::npos && line[start] != '#') return line.substr(start);
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return {};
}

// "name:" or "name: value", which no line of TOML begins with.
bool is_yaml(std::string_view line) {
  const size_t start = line.find_first_not_of(kSpace);
  if (start == std::string_view::npos) return false;
  line.remove_prefix(start);
  if (line.substr(0, 3) == "---") return true;
  const size_t end = line.find_first_not_of(kNameLetters);
  return end != 0 && end != std::string_view::npos && line[end] == ':' &&
         (end + 1 == line.size() || kSpace.find(line[end + 1]) != std::string_view::npos);
}

}  // namespace

std::string not_toml_hint(std::string_view text, std::string_view description, uint32_t line) {
  constexpr const char* kExample = "a config is TOML: 'athanor init FILE.toml' writes a commented one";
  const std::string_view first = first_line(text), wrong = line_of(text, line);
  if (first.substr(0, 1) == "{") return std::string("this looks like JSON; ") + kExample;
  if (is_yaml(first) || is_yaml(wrong)) return std::string("this looks like YAML; ") + kExample;
  const size_t equals = wrong.find('=');
  const bool bare = equals != std::string_view::npos && wrong.find_first_of("\"'") == std::string_view::npos;
  if (bare && (description.find("value") != std::string_view::npos ||
               description.find("boolean") != std::string_view::npos ||
               description.find("float") != std::string_view::npos)) {
    std::string_view value = wrong.substr(equals + 1);
    value.remove_prefix(std::min(value.size(), value.find_first_not_of(kSpace)));
    value = value.substr(0, value.find_last_not_of(kSpace) + 1);
    const bool word = !value.empty() && kNameLetters.find(value[0]) != std::string_view::npos &&
                      (value[0] < '0' || value[0] > '9');
    const bool path = !value.empty() && (value[0] == '/' || value[0] == '.' || value[0] == '~');
    if (word || path) return "a text stands in quotes: \"" + printable(value.substr(0, 40)) + "\"";
  }
  return "";
}

}  // namespace athanor::config
