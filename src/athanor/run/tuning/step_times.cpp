#include "athanor/run/tuning/step_times.h"

#include <algorithm>
#include <cmath>

#include "athanor/base/check.h"

namespace athanor::run::tuning {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(values.begin(), middle));
}

}  // namespace

StepTimes measure(std::vector<double> seconds) {
  check(!seconds.empty(), "tuning: got no steps, expected at least 1");
  const double middle = median(seconds);
  for (double& each : seconds) each = std::abs(each - middle);
  return {middle, median(std::move(seconds))};
}

bool is_faster(const StepTimes& tried, const StepTimes& before) {
  return before.median_seconds - tried.median_seconds >
         2.0 * std::max(tried.spread_seconds, before.spread_seconds);
}

bool pays(const StepTimes& before, const TryCosts& costs) {
  const int64_t after = costs.steps_left - costs.steps_of_try;
  const double gain = kHopedGain * before.median_seconds * static_cast<double>(after);
  const double cost =
      2.0 * costs.switch_seconds + before.median_seconds * static_cast<double>(costs.steps_of_try);
  return after > costs.steps_of_try && gain > cost;
}

}  // namespace athanor::run::tuning
