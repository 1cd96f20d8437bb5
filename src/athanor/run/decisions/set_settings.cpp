#include "athanor/run/decisions/set_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <variant>

#include "athanor/base/error.h"
#include "athanor/config/effects.h"
#include "athanor/config/fields.h"
#include "athanor/config/load.h"
#include "athanor/config/phases.h"
#include "athanor/config/print.h"
#include "athanor/config/validate.h"

namespace athanor::run::decisions {
namespace {

// Neither the model nor the order of samples depends on these. Memory depends on the micro-batch size: the ranks plan it anew.
constexpr std::array<std::string_view, 10> kMay = {"optimizer.",
                                                   "schedule.",
                                                   "guard.",
                                                   "train.eval_every",
                                                   "train.eval_tokens",
                                                   "train.micro_batch_size",
                                                   "train.threads",
                                                   "checkpoint.every_steps",
                                                   "checkpoint.keep",
                                                   "snapshot.every_steps"};
constexpr std::array<std::string_view, 3> kMayNot = {"optimizer.name", "schedule.steps",
                                                     "schedule.first_step"};

bool may_change(std::string_view key) {
  if (std::find(kMayNot.begin(), kMayNot.end(), key) != kMayNot.end()) return false;
  return std::any_of(kMay.begin(), kMay.end(), [&](std::string_view may) {
    return may.back() == '.' ? key.starts_with(may) : key == may;
  });
}

std::string key_of(const std::string& setting) {
  std::string key = setting.substr(0, setting.find('='));
  key.erase(0, key.find_first_not_of(' '));
  key.erase(key.find_last_not_of(' ') + 1);
  return key;
}

bool is_field(const std::string& key) {
  const size_t dot = key.find('.');
  return dot != std::string::npos &&
         find_field(std::string_view(key).substr(0, dot), std::string_view(key).substr(dot + 1)) != nullptr;
}

}  // namespace

bool may_change_order(const Config& config) {
  return config.parallel.reduce != "tree" || config.launch.allow_inexact;
}

std::string why_not_set(const Config& config, const std::string& setting) {
  const std::string key = key_of(setting);
  try {
    Config changed = config;
    override_setting(changed, setting);
    if (key.starts_with("launch."))
      return fmt::format("{} is read when athanor launch starts: stop the run, and start it again with it",
                         key);
    if (!may_change(key))
      return fmt::format(
          "{} cannot change while the run trains: got {}, expected a key of {} (and none of {})", key,
          setting, fmt::join(kMay, ", "), fmt::join(kMayNot, ", "));
    if (key == "train.micro_batch_size" && !may_change_order(config))
      return fmt::format(
          "{} changes the order of sums, which parallel.reduce = \"tree\" keeps: got {}, expected "
          "launch.allow_inexact = true with it",
          key, setting);
    if (config.parameter_server.servers > 0)
      return "with parameter servers no setting changes while the run trains";
    validate(changed);
    for (const PhaseConfig& phase : phases_of(changed)) validate(phase.config);
    check_effects(changed);
  } catch (const Failure& error) {
    return error.what();
  }
  return "";
}

std::optional<Decision> set_decision(const Config& now, const std::string& setting, int64_t step,
                                     const std::string& why) {
  const std::string key = key_of(setting);
  if (!is_field(key) || !may_change(key)) return std::nullopt;
  try {
    Config changed = now;
    override_setting(changed, setting);
    validate(changed);
    const SetSetting set{key, setting_text(changed, key), setting_text(now, key)};
    if (set.value == set.was) return std::nullopt;
    return Decision{step, set, why};
  } catch (const Failure&) {
    return std::nullopt;
  }
}

Config settings_at(const Config& said, const std::vector<Decision>& decisions, int64_t step) {
  Config config = said;
  for (const Decision& decision : decisions) {
    const auto* set = std::get_if<SetSetting>(&decision.what);
    if (set == nullptr || decision.step > step || !is_field(set->key) || !may_change(set->key)) continue;
    if (setting_text(config, set->key) != set->was) continue;
    Config changed = config;
    try {
      override_setting(changed, set->key + "=" + set->value);
      validate(changed);
    } catch (const Failure&) {
      continue;
    }
    config = std::move(changed);
  }
  return config;
}

std::optional<int64_t> next_set(const std::vector<Decision>& decisions, int64_t after_step) {
  std::optional<int64_t> next;
  for (const Decision& decision : decisions)
    if (std::holds_alternative<SetSetting>(decision.what) && decision.step > after_step && !next)
      next = decision.step;
  return next;
}

}  // namespace athanor::run::decisions
