#include "athanor/corpus/passes/histogram.h"

#include <algorithm>
#include <cmath>

namespace athanor::corpus::passes {
namespace {

constexpr int32_t kBinsPerPower = 16;
constexpr int32_t kZeroPower =
    1100;  // beyond the exponents of doubles: positive values have positive numbers

int32_t bin_of(double value) {
  if (value == 0) return 0;
  int power = 0;
  const double mantissa = std::frexp(std::fabs(value), &power);  // [0.5, 1)
  const auto step = static_cast<int32_t>((mantissa - 0.5) * 2 * kBinsPerPower);
  const int32_t number = (power + kZeroPower) * kBinsPerPower + step;
  return value > 0 ? number : -number;
}

double low_of(int32_t bin) {
  if (bin == 0) return 0;
  const int32_t number = std::abs(bin), power = number / kBinsPerPower - kZeroPower;
  // Of a negative bin the end that is farther from zero.
  const int32_t step = number % kBinsPerPower + (bin < 0 ? 1 : 0);
  const double value = std::ldexp(0.5 + 0.5 * step / kBinsPerPower, power);
  return bin > 0 ? value : -value;
}

}  // namespace

void Histogram::add(double value) {
  if (!std::isfinite(value)) {
    ++not_finite_;
    return;
  }
  least_ = count_ == 0 ? value : std::min(least_, value);
  most_ = count_ == 0 ? value : std::max(most_, value);
  sum_ += value;
  ++count_;
  ++bins_[bin_of(value)];
}

double Histogram::mean() const {
  return count_ == 0 ? NAN : sum_ / static_cast<double>(count_);
}

double Histogram::quantile(double share) const {
  const double wanted = share * static_cast<double>(count_);
  uint64_t below = 0;
  for (const auto& [bin, count] : bins_) {
    below += count;
    if (static_cast<double>(below) >= wanted) return std::clamp(low_of(bin), least_, most_);
  }
  return count_ == 0 ? NAN : most_;
}

std::vector<std::pair<double, uint64_t>> Histogram::bins() const {
  std::vector<std::pair<double, uint64_t>> bins;
  for (const auto& [bin, count] : bins_) bins.emplace_back(std::max(low_of(bin), least_), count);
  return bins;
}

std::vector<uint64_t> Histogram::even_bins(size_t number, double low, double high) const {
  std::vector<uint64_t> even(number, 0);
  for (const auto& [from, count] : bins()) {
    const double place = high > low ? (from - low) / (high - low) * static_cast<double>(number) : 0;
    even[static_cast<size_t>(std::clamp(place, 0.0, static_cast<double>(number - 1)))] += count;
  }
  return even;
}

}  // namespace athanor::corpus::passes
