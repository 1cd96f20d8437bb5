#include "athanor/nn/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "athanor/base/check.h"

namespace athanor::nn {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;

// `f` mixed with f / factor: all of f where `share` is 1.
double mixed(const RopeScaling& scaling, double f, double share) {
  return (1.0 - share) * (f / scaling.factor) + share * f;
}

double by_wavelength(const RopeScaling& scaling, double f) {
  const auto length = static_cast<double>(scaling.original_length);
  const double wavelength = kTwoPi / f;
  if (wavelength < length / scaling.high_freq_factor) return f;
  if (wavelength > length / scaling.low_freq_factor) return f / scaling.factor;
  return mixed(
      scaling, f,
      (length / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor));
}

// Where yarn's ramp over the pairs begins and ends.
struct Ramp {
  double low, high;
  double at(int64_t pair) const {
    return std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  }
};

Ramp ramp_of(const RopeScaling& scaling, double base, int64_t head_dim) {
  // The pair, as a real number, that turns `times` times within the original length.
  const auto pair_of = [&](double times) {
    return static_cast<double>(head_dim) *
           std::log(static_cast<double>(scaling.original_length) / (kTwoPi * times)) / (2.0 * std::log(base));
  };
  double low = pair_of(scaling.beta_fast), high = pair_of(scaling.beta_slow);
  if (scaling.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  // An empty ramp is a step.
  if (high <= low) high = low + 0.001;
  return {low, high};
}

}  // namespace

std::vector<double> rope_frequencies(const RopeScaling& scaling, double base, int64_t head_dim) {
  check(head_dim >= 2 && head_dim % 2 == 0, "rope: head_dim {} must be even", head_dim);
  const auto width = static_cast<double>(head_dim);
  const std::string& method = scaling.method;
  // With one pair only, f_0 = 1 whatever the base.
  if (method == "ntk" && head_dim > 2) base *= std::pow(scaling.factor, width / (width - 2.0));
  std::vector<double> frequencies(static_cast<size_t>(head_dim / 2));
  for (size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = std::pow(base, -2.0 * static_cast<double>(i) / width);
  if (method == "none" || method == "ntk") return frequencies;
  if (method == "linear") {
    for (double& f : frequencies) f /= scaling.factor;
  } else if (method == "llama3") {
    for (double& f : frequencies) f = by_wavelength(scaling, f);
  } else if (method == "yarn") {
    const Ramp ramp = ramp_of(scaling, base, head_dim);
    for (size_t i = 0; i < frequencies.size(); ++i)
      frequencies[i] = mixed(scaling, frequencies[i], 1.0 - ramp.at(static_cast<int64_t>(i)));
  } else {
    fail("rope_scaling: got '{}', expected none, linear, ntk, llama3 or yarn", method);
  }
  return frequencies;
}

double rope_magnitude(const RopeScaling& scaling) {
  if (scaling.method != "yarn") return 1.0;
  return scaling.attention_factor > 0.0 ? scaling.attention_factor : 0.1 * std::log(scaling.factor) + 1.0;
}

}  // namespace athanor::nn
