#include "athanor/observe/html/text.h"

#include <fmt/core.h>

#include <cmath>

#include "athanor/base/human.h"

namespace athanor::observe::html {

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : printable(text)) {
    if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '&')
      safe += "&amp;";
    else if (c == '"')
      safe += "&quot;";
    else if (c == '\'')
      safe += "&#39;";
    else
      safe += c;
  }
  return safe;
}

std::string short_number(double value) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  if (size >= 1e6) return human_count(value);
  if (size >= 1000) return with_commas(std::llround(value));
  return fmt::format("{:.4g}", value);
}

}  // namespace athanor::observe::html
