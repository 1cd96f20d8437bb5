#include "athanor/launch/environment/variables.h"

#include <fmt/core.h>

#include <charconv>

#include "athanor/base/error.h"

namespace athanor::launch::environment {

std::string Variables::text(const char* name) const {
  const char* value = lookup_(name);
  return value == nullptr ? "" : value;
}

std::optional<int> Variables::number(const char* name, int least, int most) const {
  const char* text = lookup_(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  int value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size() || value < least || value > most)
    throw ConfigError(fmt::format("environment variable {}: got \"{}\", expected a number from {} to {}",
                                  name, view, least, most));
  return value;
}

}  // namespace athanor::launch::environment
