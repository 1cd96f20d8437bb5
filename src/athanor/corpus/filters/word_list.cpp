#include "athanor/corpus/filters/word_list.h"

#include <algorithm>

#include "athanor/base/file.h"

namespace athanor::corpus::filters {

std::vector<std::string> read_list(const std::vector<std::string>& entries, const std::string& path) {
  std::vector<std::string> out = entries;
  if (path.empty()) return out;
  const std::string text = system_env().read_text(path);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const size_t first = text.find_first_not_of(" \t\r", at);
    if (first < end && text[first] != '#') {
      const size_t last = text.find_last_not_of(" \t\r", end - 1);
      out.push_back(text.substr(first, last + 1 - first));
    }
    at = end + 1;
  }
  return out;
}

std::string lower_ascii(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace athanor::corpus::filters
