#include "athanor/documents/text_key.h"

#include <fmt/core.h>

#include "athanor/base/error.h"
#include "athanor/base/human.h"

namespace athanor::documents {

TextKey::TextKey(const std::string& key) : is_template_(key.find_first_of("{}") != std::string::npos) {
  if (!is_template_) {
    parts_.push_back({"", key});
    return;
  }
  const auto refuse = [&](const char* what) {
    throw ConfigError(fmt::format("text key '{}': {}", printable(key), what),
                      "write a template like \"{title}\\n{body}\", with {{ and }} for braces of its own");
  };
  std::string words;
  for (size_t at = 0; at < key.size(); ++at) {
    const char c = key[at];
    if (c != '{' && c != '}') {
      words += c;
    } else if (at + 1 < key.size() && key[at + 1] == c) {
      words += c;
      ++at;
    } else {
      if (c == '}') refuse("got a '}' without '{', expected }} for a brace of its own");
      const size_t close = key.find_first_of("{}", at + 1);
      if (close == std::string::npos || key[close] == '{') refuse("got a '{' without '}', expected {key}");
      if (close == at + 1) refuse("got {}, expected a key between the braces");
      parts_.push_back({words, key.substr(at + 1, close - at - 1)});
      words.clear();
      at = close;
    }
  }
  if (parts_.empty()) refuse("got a template without a key, expected a {key} in it");
  after_ = words;
}

}  // namespace athanor::documents
