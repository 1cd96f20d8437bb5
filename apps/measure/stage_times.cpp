#include "stage_times.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "athanor/base/error.h"
#include "athanor/base/human.h"

namespace athanor::apps {

StageCost parse_stage_times(const std::string& command, const std::string& text) {
  std::array<double, 3> values{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto [next, code] = std::from_chars(at, end, values[i]);
    const bool last = i + 1 == values.size();
    if (code != std::errc() || !std::isfinite(values[i]) || values[i] < 0.0 ||
        (last ? next != end : next == end) || (!last && *next != ','))
      throw ConfigError(fmt::format("{}: --times: got '{}', expected three numbers from 0 on, F,B,W", command,
                                    printable(text)));
    at = next + 1;
  }
  return {values[0], values[1], values[2], 1.0};
}

}  // namespace athanor::apps
