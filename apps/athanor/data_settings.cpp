#include "data_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/base/human.h"

namespace athanor::apps {

void check_overrides(const std::vector<std::string>& overrides, std::initializer_list<std::string_view> read,
                     const std::string& command) {
  for (const std::string& text : overrides) {
    const size_t start = std::min(text.size(), text.find_first_not_of(" \t"));
    const std::string key = text.substr(start, text.find_first_of(" \t=", start) - start);
    const auto reads = [&](std::string_view name) {
      return name.ends_with('.') ? (key + ".").starts_with(name) : key == name;
    };
    if (std::none_of(read.begin(), read.end(), reads))
      throw ConfigError(
          fmt::format("--set {}: {} has no effect on '{}'", printable(text), printable(key), command),
          fmt::format("it reads {}", fmt::join(read, ", ")));
  }
}

}  // namespace athanor::apps
