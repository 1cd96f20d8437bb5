#include "athanor/data/mixture.h"

#include <algorithm>
#include <cmath>

#include "athanor/base/check.h"

namespace athanor::data {
namespace {

constexpr int kShareBits = 62;
constexpr uint64_t kOne = uint64_t{1} << kShareBits;

// round(n * share), halves upwards.
int64_t part(int64_t n, uint64_t share) {
  const unsigned __int128 product = static_cast<unsigned __int128>(n) * share + kOne / 2;
  return static_cast<int64_t>(product >> kShareBits);
}

}  // namespace

Mixture::Mixture(const std::vector<double>& weights) : places_(weights.size()), drawn_(weights.size()) {
  double largest = 0;
  for (size_t c = 0; c < weights.size(); ++c) {
    if (!std::isfinite(weights[c]) || weights[c] < 0)
      throw ConfigError(
          fmt::format("weight of channel {}: got {}, expected a number from 0 up", c, weights[c]));
    largest = std::max(largest, weights[c]);
  }
  if (largest == 0) throw ConfigError("weights of the channels: got none above 0, expected at least one");
  std::vector<double> relative;  // to the largest, so that no sum overflows
  std::vector<int> channels;
  for (size_t c = 0; c < weights.size(); ++c) {
    relative.push_back(weights[c] / largest);
    drawn_[c] = relative[c] > 0;
    if (drawn_[c]) channels.push_back(static_cast<int>(c));
  }
  std::stable_sort(channels.begin(), channels.end(), [&](int a, int b) {
    return relative[static_cast<size_t>(a)] > relative[static_cast<size_t>(b)];
  });
  std::vector<Place> path;
  root_ = divide(channels, relative, path);
}

// Bound of the error: if a node's count is wrong by e sequences, each half is wrong by at most e times its share plus
// 1/2. Channels come heaviest first, so a half of several channels has at most two thirds of a node's weight. So the
// error of such a half stays below 1.5, and that of a channel below 2.
Mixture::Half Mixture::divide(const std::vector<int>& channels, const std::vector<double>& weights,
                              std::vector<Place>& path) {
  if (channels.size() == 1) {
    places_[static_cast<size_t>(channels[0])] = path;
    return {.channel = channels[0]};
  }
  double total = 0;
  for (auto c = channels.rbegin(); c != channels.rend(); ++c) total += weights[static_cast<size_t>(*c)];
  size_t cut = 1;
  double first = weights[static_cast<size_t>(channels[0])];
  while (cut + 1 < channels.size()) {
    const double more = first + weights[static_cast<size_t>(channels[cut])];
    if (std::abs(more - total / 2) > std::abs(first - total / 2)) break;
    first = more;
    ++cut;
  }
  const auto middle = channels.begin() + static_cast<std::ptrdiff_t>(cut);
  const int node = static_cast<int>(nodes_.size());
  nodes_.push_back({static_cast<uint64_t>(std::ldexp(first / total, kShareBits)), {}, {}});
  path.push_back({node, false});
  const Half left = divide({channels.begin(), middle}, weights, path);
  path.back().second = true;
  const Half right = divide({middle, channels.end()}, weights, path);
  path.pop_back();
  nodes_[static_cast<size_t>(node)].first = left;
  nodes_[static_cast<size_t>(node)].second = right;
  return {.node = node};
}

Draw Mixture::draw(int64_t n) const {
  check(n >= 0, "mixture: draw {}, expected 0 or more", n);
  Half at = root_;
  while (at.node >= 0) {
    const Node& node = nodes_[static_cast<size_t>(at.node)];
    const int64_t before = part(n, node.share);
    const bool first = part(n + 1, node.share) > before;
    n = first ? before : n - before;
    at = first ? node.first : node.second;
  }
  return {at.channel, n};
}

int64_t Mixture::count(int channel, int64_t n) const {
  check(n >= 0 && channel >= 0 && channel < num_channels(), "mixture: count of channel {} in {} draws",
        channel, n);
  if (!drawn_[static_cast<size_t>(channel)]) return 0;
  for (const Place& place : places_[static_cast<size_t>(channel)]) {
    const int64_t first = part(n, nodes_[static_cast<size_t>(place.node)].share);
    n = place.second ? n - first : first;
  }
  return n;
}

}  // namespace athanor::data
