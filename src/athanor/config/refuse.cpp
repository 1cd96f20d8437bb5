#include "athanor/config/refuse.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "athanor/base/human.h"
#include "athanor/base/nearest.h"
#include "athanor/config/peer_names.h"
#include "athanor/config/phases.h"

namespace athanor::config {

void with_phase_named(const Config& run, size_t index, const std::function<void()>& check) {
  try {
    check();
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", phase_label(run, index), error.what()), error.hint());
  }
}

void check_choice(const Config& config, const std::string& key, const std::string& value,
                  const std::vector<std::string>& choices) {
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) return;
  if (const std::string ours = peer_value(value, choices); !ours.empty())
    refuse(config, key, "", "got '{}', expected one of {}; Athanor calls it '{}'", printable(value),
           fmt::join(choices, ", "), ours);
  const std::string nearest = nearest_name(value, choices);
  refuse(config, key, "", "got '{}', expected one of {}{}", printable(value), fmt::join(choices, ", "),
         nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest));
}

}  // namespace athanor::config
