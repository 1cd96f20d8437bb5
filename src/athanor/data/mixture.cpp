#include "athanor/data/mixture.h"

#include <algorithm>
#include <cmath>

#include "athanor/base/check.h"

namespace athanor {
namespace {

constexpr int kShareBits = 62;
constexpr uint64_t kOne = uint64_t{1} << kShareBits;

// round(n * share), halves upwards.
int64_t part(int64_t n, uint64_t share) {
  const unsigned __int128 product = static_cast<unsigned __int128>(n) * share + kOne / 2;
  return static_cast<int64_t>(product >> kShareBits);
}

}  // namespace

Mixture::Mixture(const std::vector<double>& weights) : shares_(weights.size()) {
  double largest = 0;
  for (size_t c = 0; c < weights.size(); ++c) {
    if (!std::isfinite(weights[c]) || weights[c] < 0)
      throw ConfigError(
          fmt::format("weight of channel {}: got {}, expected a number from 0 up", c, weights[c]));
    largest = std::max(largest, weights[c]);
  }
  if (largest == 0) throw ConfigError("weights of the channels: got none above 0, expected at least one");
  double left = 0;  // of the weights from channel c on, in units of the largest
  for (size_t c = weights.size(); c-- > 0;) {
    const double weight = weights[c] / largest;
    left += weight;
    shares_[c] = left > 0 ? static_cast<uint64_t>(std::ldexp(weight / left, kShareBits)) : 0;
  }
}

Draw Mixture::draw(int64_t n) const {
  check(n >= 0, "mixture: draw {}, expected 0 or more", n);
  for (size_t c = 0; c < shares_.size(); ++c) {
    const int64_t before = part(n, shares_[c]);
    if (part(n + 1, shares_[c]) > before) return {static_cast<int>(c), before};
    n -= before;
  }
  fail("mixture: no channel has weight left");  // the last channel with a weight has share 1
}

int64_t Mixture::count(int channel, int64_t n) const {
  check(n >= 0 && channel >= 0 && channel < num_channels(), "mixture: count of channel {} in {} draws",
        channel, n);
  for (int c = 0; c < channel; ++c) n -= part(n, shares_[static_cast<size_t>(c)]);
  return part(n, shares_[static_cast<size_t>(channel)]);
}

}  // namespace athanor
