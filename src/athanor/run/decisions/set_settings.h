// Settings that change while a run lives, by decisions (engine/decisions.h): `athanor ctl RUN set KEY=VALUE`.
//
//   if (const std::string why = why_not_set(config, "optimizer.lr=1e-3"); !why.empty()) refuse(why);
//   const Config now = settings_at(said, decisions, step);        // what the run's steps from `step` on are made with
//   const std::optional<int64_t> next = next_set(decisions, step);   // the step at which they change again
//
// A decision replaces a value that it names. Where the settings that the user gives have another value for the key, they were
// changed since, and count: what was said last wins.
//
// Errors: none; a decision that cannot be followed has no effect. Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "athanor/config/config.h"
#include "athanor/engine/decisions.h"

namespace athanor::run::decisions {

// Why a run of this config cannot have the setting ("optimizer.lr=1e-3") while it trains; "": it can.
std::string why_not_set(const Config& config, const std::string& setting);

// Whether the order of sums may change while it trains, which the micro-batch size does.
bool may_change_order(const Config& config);

// The setting as a decision of that step; none: it has that value already, or cannot have it.
std::optional<Decision> set_decision(const Config& now, const std::string& setting, int64_t step,
                                     const std::string& why = "the operator wants it");

// `said`: the settings of a phase, or of the run, without decisions.
Config settings_at(const Config& said, const std::vector<Decision>& decisions, int64_t step);
std::optional<int64_t> next_set(const std::vector<Decision>& decisions, int64_t after_step);

}  // namespace athanor::run::decisions
