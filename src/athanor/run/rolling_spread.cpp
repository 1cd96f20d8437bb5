#include "athanor/run/rolling_spread.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace athanor::run {
namespace {

constexpr double kUsualJumps = 0.95;

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size()));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<size_t>(at)];
}

}  // namespace

std::vector<double> RollingSpread::recent() const {
  std::vector<double> recent;
  for (size_t i = values_.size() - std::min(values_.size(), kRecent); i < values_.size(); ++i)
    recent.push_back(values_[i].second);
  return recent;
}

bool RollingSpread::is_far_above(double value) const {
  if (values_.size() < kEnough || !std::isfinite(value)) return false;
  if (scale_ == Scale::logarithmic && value <= 0.0) return false;
  const std::vector<double> before = recent();
  if (std::any_of(before.begin(), before.end(), [&](double each) { return value <= each; })) return false;
  const auto scaled = [this](double each) { return scale_ == Scale::linear ? each : std::log(each); };
  std::vector<double> jumps;
  for (size_t i = 1; i < values_.size(); ++i)
    jumps.push_back(std::abs(scaled(values_[i].second) - scaled(values_[i - 1].second)));
  const double usual = kJumps * quantile(std::move(jumps), kUsualJumps), middle = median();
  const double least =
      scale_ == Scale::linear ? (least_factor_ - 1.0) * std::abs(middle) : std::log(least_factor_);
  return scaled(value) - scaled(middle) > std::max(usual, least);
}

double RollingSpread::median() const {
  return quantile(recent(), 0.5);
}

void RollingSpread::add(int64_t step, double value) {
  if (!std::isfinite(value) || (scale_ == Scale::logarithmic && value <= 0.0)) return;
  values_.emplace_back(step, value);
  if (values_.size() > kWindow) values_.pop_front();
}

void RollingSpread::forget_after(int64_t step) {
  while (!values_.empty() && values_.back().first > step) values_.pop_back();
}

}  // namespace athanor::run
