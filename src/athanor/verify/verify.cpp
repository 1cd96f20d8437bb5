#include "athanor/verify/verify.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace athanor::verify {
namespace {

constexpr double kZeroGradient = 1e-7;  // of the largest gradient's norm

double norm_of(const std::vector<float>& values) {
  double sum = 0.0;
  for (const float value : values) sum += double{value} * double{value};
  return std::sqrt(sum);
}

double gap_of(const std::vector<float>& got, const std::vector<float>& expected) {
  check(got.size() == expected.size(), "verify: got {} values, expected {}", got.size(), expected.size());
  double sum = 0.0;
  for (size_t i = 0; i < got.size(); ++i) sum += std::pow(double{got[i]} - double{expected[i]}, 2);
  return std::sqrt(sum);
}

template <typename Bits, typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](T x, T y) { return std::bit_cast<Bits>(x) == std::bit_cast<Bits>(y); });
}
bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return same_bits<uint64_t>(a, b);
}
bool same_bits(const WholeTensors& a, const WholeTensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && same_bits<uint32_t>(x.second, y.second);
  });
}

// One token routed to another expert changes the counts of two experts by one.
int64_t flips_of(const ExpertLoad& got, const ExpertLoad& expected) {
  int64_t moved = 0;
  for (size_t layer = 0; layer < expected.chosen.size(); ++layer)
    for (size_t e = 0; e < expected.chosen[layer].size(); ++e)
      moved += std::abs(got.chosen.at(layer).at(e) - expected.chosen[layer][e]);
  return moved / 2;
}

}  // namespace

void Largest::note(double difference, const std::string& place) {
  if (difference <= value) return;
  value = std::isnan(difference) ? HUGE_VAL : difference;
  where = place;
}

double LayoutDifference::worst() const {
  return std::max({loss.value, grad_norm.value, gradient.value, weight.value});
}

LayoutDifference compare(const VerifyRun& got, const VerifyRun& expected) {
  LayoutDifference found;
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    const std::string step = fmt::format("step {}", i + 1);
    found.loss.note(std::abs(got.losses.at(i) / expected.losses[i] - 1.0), step);
    found.grad_norm.note(std::abs(got.grad_norms.at(i) / expected.grad_norms[i] - 1.0), step);
  }
  double largest = 0.0;
  for (const auto& [name, values] : expected.gradients) largest = std::max(largest, norm_of(values));
  for (const auto& [name, values] : expected.gradients) {
    const size_t kind = name.find("gradient.");  // after the prefix of the replica group
    const std::string param = name.substr(kind + std::string("gradient.").size());
    const std::string weight = name.substr(0, kind) + "model." + param;
    const double norm = norm_of(values), gap = gap_of(got.gradients.at(name), values);
    if (!(gap <= kZeroGradient * largest)) found.gradient.note(gap / norm, param);
    if (norm <= kZeroGradient * largest) continue;
    const auto& weights = expected.weights.at(weight);
    const double moved = gap_of(got.weights.at(weight), weights);
    if (moved > 0.0) found.weight.note(moved / norm_of(weights), param);
  }
  for (size_t i = 0; i < expected.experts.size(); ++i)
    found.routing_flips += flips_of(got.experts.at(i), expected.experts[i]);
  found.bitwise = same_bits(got.losses, expected.losses) && same_bits(got.grad_norms, expected.grad_norms) &&
                  same_bits(got.gradients, expected.gradients) && same_bits(got.weights, expected.weights) &&
                  same_bits(got.state, expected.state);
  return found;
}

}  // namespace athanor::verify
