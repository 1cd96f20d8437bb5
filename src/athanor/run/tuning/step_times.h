// The time of a step under one setting, as a few steps have measured it: their median, and how far they lie from it.
//
//   const StepTimes before = measure({0.51, 0.50, 0.52}), tried = measure({0.31, 0.30, 0.33});
//   if (is_faster(tried, before)) keep_it();
//   if (pays(before, {.steps_left = 800, .steps_of_try = 12, .switch_seconds = 0.2})) try_it();
//
// The spread is the median of the distances from the median (MAD), which one slow step does not move. What is tried counts as
// faster where the gain is more than twice the larger spread of the two. It is tried where a gain of kHopedGain over the
// steps that are left would be more than a try costs: both changes of the setting, and as much again as its steps took
// before. Errors: Error for no steps at all. Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::run::tuning {

struct StepTimes {
  double median_seconds = 0.0, spread_seconds = 0.0;
  bool operator==(const StepTimes&) const = default;
};

StepTimes measure(std::vector<double> seconds);
bool is_faster(const StepTimes& tried, const StepTimes& before);

constexpr double kHopedGain = 0.1;  // of a step's time

struct TryCosts {
  int64_t steps_left = 0;  // of the phase, those of the try included
  int64_t steps_of_try = 0;
  double switch_seconds = 0.0;  // from the last step of a segment until the next one can begin
};
bool pays(const StepTimes& before, const TryCosts& costs);

}  // namespace athanor::run::tuning
