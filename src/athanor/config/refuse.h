// How a check of a config says what is wrong: "ORIGIN: KEY: MESSAGE", a ConfigError.
//
//   require(t.micro_batch_size <= t.global_batch_size, config, "train.micro_batch_size", "got {}, ...", ...);
//   refuse(config, "offload.path", "make the folder", "got '{}', expected a folder", path);
//
// ORIGIN is where the key was set (a line of the file, an override), if it was. Thread rule: pure functions.
#pragma once

#include <fmt/core.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/config/config.h"

namespace athanor::config {

template <typename... Args>
[[noreturn]] void refuse(const Config& config, const std::string& key, const std::string& hint,
                         fmt::format_string<Args...> message, Args&&... args) {
  const auto origin = config.origins.find(key);
  const std::string where = origin == config.origins.end() ? "" : origin->second.text + ": ";
  throw ConfigError(
      fmt::format("{}{}: {}", where, key, fmt::vformat(message, fmt::make_format_args(args...))), hint);
}

template <typename... Args>
void require(bool condition, const Config& config, const std::string& key,
             fmt::format_string<Args...> message, Args&&... args) {
  if (!condition) refuse(config, key, "", message, std::forward<Args>(args)...);
}

// Runs a check of the settings of a phase; what it refuses names the phase.
void with_phase_named(const Config& run, size_t index, const std::function<void()>& check);

// That `value` is one of `choices` (all, if there are none); names the nearest.
void check_choice(const Config& config, const std::string& key, const std::string& value,
                  const std::vector<std::string>& choices);

}  // namespace athanor::config
