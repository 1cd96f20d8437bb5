#include <algorithm>
#include <limits>
#include <set>

#include <fmt/ranges.h>

#include "athanor/base/human.h"
#include "athanor/config/fields.h"
#include "athanor/config/phases.h"
#include "athanor/config/refuse.h"
#include "athanor/config/validate.h"
#include "athanor/config/validate_parts.h"

namespace athanor::config {
namespace {

template <typename... Args>
void require_of(bool condition, const Config& config, size_t index, const std::string& key,
                fmt::format_string<Args...> message, Args&&... args) {
  if (condition) return;
  const auto origin = config.origins.find(phase_origin(index, key));
  throw ConfigError(
      fmt::format("{}{}: {}: {}", origin == config.origins.end() ? "" : printable(origin->second.text) + ": ",
                  phase_label(config, index), key, fmt::format(message, std::forward<Args>(args)...)));
}

// A name stands in the key of a random stream (data/sampler.h), in messages and in overrides, where a number counts.
void check_names(const Config& config) {
  std::set<std::string> seen;
  for (size_t i = 0; i < config.phases.size(); ++i) {
    const std::string& name = config.phases[i].name;
    require_of(!name.empty() && name.size() <= 64, config, i, "name", "got {} bytes, expected 1 to 64",
               name.size());
    require_of(printable(name) == name && name.find_first_of("/\\\"'=|") == std::string::npos &&
                   name.front() != ' ' && name.back() != ' ',
               config, i, "name",
               "got '{}', expected a name without controls, spaces at its ends and any of / \\ \" ' = |",
               printable(name));
    require_of(name.find_first_not_of("0123456789") != std::string::npos, config, i, "name",
               "got '{}', expected a name that is not a number: --set counts the phases by those", name);
    require_of(seen.insert(name).second, config, i, "name", "got '{}' twice, expected unique names", name);
  }
}

void check_sum(const Config& config) {
  const int64_t sum = steps_of_phases(config);
  std::vector<std::string> parts;
  for (const Phase& phase : config.phases) parts.push_back(fmt::format("{} {}", phase.name, phase.steps));
  constexpr size_t kShown = 8;
  if (parts.size() > kShown) parts.resize(kShown), parts.emplace_back("...");
  if (sum != config.train.steps)
    refuse(config, "train.steps", "leave train.steps out: it is what the steps of the phases add up to",
           "got {}, expected {}, which the steps of the phases add up to ({})", config.train.steps, sum,
           printable(fmt::format("{}", fmt::join(parts, ", "))));
}

// What is held out of a channel stays held out: its validation loss is compared over the whole run.
void check_held_out(const Config& config, size_t index, const Config& of_phase) {
  for (const ChannelConfig& channel : of_phase.data.channels)
    for (const ChannelConfig& base : config.data.channels)
      require_of(base.name != channel.name || base.valid_path == channel.valid_path, config, index,
                 "data.channels",
                 "got valid_path '{}' of channel '{}', expected '{}' as in [data]: a phase may not change "
                 "what is held out",
                 printable(channel.valid_path), channel.name, printable(base.valid_path));
}

}  // namespace

int64_t steps_of_phases(const Config& config) {
  const Field<Phase>& field = phase_fields().back();
  int64_t sum = 0;
  for (size_t i = 0; i < config.phases.size(); ++i) {
    const auto steps = config.phases[i].steps;
    const Range& range = field.traits.range;
    require_of(range.contains(static_cast<long double>(steps)), config, i, field.name, "got {}, expected {}",
               steps, range.expected(static_cast<long double>(steps)));
    sum += std::min(steps, std::numeric_limits<int64_t>::max() - sum);
  }
  return sum;
}

void check_phases(const Config& config) {
  if (config.phases.empty()) return;
  check_names(config);
  check_sum(config);
  const std::vector<PhaseConfig> phases = phases_of(config);
  for (size_t i = 0; i < phases.size(); ++i) {
    for (const auto& [key, value] : config.phases[i].settings)
      require_of(phase_may_set(key), config, i, key, "a phase may not change it, only {}",
                 phase_settings_text());
    with_phase_named(config, i, [&] { validate(phases[i].config); });
    check_held_out(config, i, phases[i].config);
    const int64_t interval = config.local_sgd.sync_interval;
    require_of(
        interval == 0 || config.phases[i].steps % interval == 0, config, i, "steps",
        "got {}, expected a multiple of local_sgd.sync_interval = {}: a phase begins from weights that "
        "all replica groups have in common",
        config.phases[i].steps, interval);
  }
}

}  // namespace athanor::config
