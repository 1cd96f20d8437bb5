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

namespace {

bool has_budget(const ChannelAsk& channel) {
  return channel.epochs > 0 || channel.tokens > 0;
}

// Of a channel with epochs or tokens: the sequences that it asks for.
double sequences_asked(const ChannelAsk& channel, int64_t seq_len) {
  return channel.epochs > 0 ? channel.epochs * static_cast<double>(channel.train_sequences)
                            : static_cast<double>(channel.tokens) / static_cast<double>(seq_len);
}

void check_one_key(const ChannelAsk& channel, double temperature) {
  std::string given;
  int keys = temperature > 0 ? 1 : 0;
  const auto add = [&](bool is_given, const std::string& text) {
    if (!is_given) return;
    given += (given.empty() ? "" : " and ") + text;
    ++keys;
  };
  add(channel.weight != 1.0, fmt::format("weight = {}", channel.weight));
  add(channel.epochs > 0, fmt::format("epochs = {}", channel.epochs));
  add(channel.tokens > 0, fmt::format("tokens = {}", channel.tokens));
  if (keys < 2) return;
  if (temperature > 0)
    throw ConfigError(fmt::format("channel '{}': got {} beside data.temperature = {}, expected one of them",
                                  channel.name, given, temperature),
                      "data.temperature gives every channel its share by size");
  throw ConfigError(fmt::format("channel '{}': got {}, expected one of them", channel.name, given),
                    "each of them alone says how much of the channel is read");
}

// What the budgets ask for does not go with the steps.
[[noreturn]] void refuse_budgets(std::span<const ChannelAsk> channels, const MixtureAsk& ask, double asked) {
  std::string parts;
  bool all = true;
  for (const ChannelAsk& channel : channels) {
    all = all && has_budget(channel);
    if (!has_budget(channel)) continue;
    parts += fmt::format("{}'{}' {:.0f}", parts.empty() ? "" : ", ", channel.name,
                         sequences_asked(channel, ask.seq_len));
  }
  const double steps = asked / static_cast<double>(ask.global_batch);
  throw ConfigError(
      fmt::format(
          "data.channels: epochs and tokens ask for {:.0f} sequences ({}), expected {} the {} of {} steps",
          asked, parts, all ? "about" : "fewer than", ask.steps * ask.global_batch, ask.steps),
      all ? fmt::format(
                "{:.0f} steps would do; or give a channel a weight in place of its budget, and it gets "
                "the rest",
                std::max(1.0, std::round(steps)))
          : fmt::format("more than {:.0f} steps would do; or lower the budgets", std::ceil(steps)));
}

}  // namespace

std::vector<double> mixture_weights(std::span<const ChannelAsk> channels, const MixtureAsk& ask) {
  for (const ChannelAsk& channel : channels) check_one_key(channel, ask.temperature);
  std::vector<double> weights;
  if (ask.temperature > 0) {
    double largest = 1.0;
    for (const ChannelAsk& channel : channels)
      largest = std::max(largest, static_cast<double>(channel.train_tokens));
    for (const ChannelAsk& channel : channels)
      weights.push_back(std::pow(static_cast<double>(channel.train_tokens) / largest, 1.0 / ask.temperature));
    return weights;
  }
  const double drawn = static_cast<double>(ask.steps) * static_cast<double>(ask.global_batch);
  double asked = 0.0, rest_weights = 0.0;
  bool any = false, all = true;
  for (const ChannelAsk& channel : channels) {
    if (has_budget(channel))
      asked += sequences_asked(channel, ask.seq_len);
    else
      rest_weights += channel.weight;
    any = any || has_budget(channel);
    all = all && has_budget(channel);
  }
  if (any && (all ? std::abs(asked - drawn) > static_cast<double>(ask.global_batch) : asked >= drawn))
    refuse_budgets(channels, ask, asked);
  for (const ChannelAsk& channel : channels)
    weights.push_back(has_budget(channel) ? sequences_asked(channel, ask.seq_len) / drawn
                      : any               ? channel.weight / rest_weights * (1.0 - asked / drawn)
                                          : channel.weight);
  return weights;
}

}  // namespace athanor::data
