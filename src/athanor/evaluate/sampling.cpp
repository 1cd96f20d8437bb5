#include "athanor/evaluate/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "athanor/base/check.h"

namespace athanor::evaluate {

int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, double uniform) {
  check(options.temperature >= 0.0, "temperature: got {}, expected 0 (greedy) or more", options.temperature);
  check(options.top_p > 0.0 && options.top_p <= 1.0, "top-p: got {}, expected above 0 and at most 1",
        options.top_p);
  check(options.top_k >= 0, "top-k: got {}, expected 0 (all) or more", options.top_k);
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int32_t id) { return !std::isfinite(logits[static_cast<size_t>(id)]); });
  check(!order.empty(), "sampling: none of {} logits is finite", logits.size());
  const auto likelier = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  if (options.temperature == 0.0) return *std::min_element(order.begin(), order.end(), likelier);

  size_t kept = order.size();
  if (options.top_k > 0) kept = std::min(kept, static_cast<size_t>(options.top_k));
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), likelier);
  order.resize(kept);
  std::vector<double> weights(kept);
  const double top = static_cast<double>(logits[static_cast<size_t>(order[0])]);
  for (size_t i = 0; i < kept; ++i)
    weights[i] =
        std::exp((static_cast<double>(logits[static_cast<size_t>(order[i])]) - top) / options.temperature);
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (options.top_p < 1.0) {
    double sum = 0.0;
    size_t last = 0;
    while (last < kept && sum < options.top_p * total) sum += weights[last++];
    kept = last;
    total = sum;
  }
  double left = uniform * total;
  for (size_t i = 0; i + 1 < kept; ++i) {
    left -= weights[i];
    if (left < 0.0) return order[i];
  }
  return order[kept - 1];
}

}  // namespace athanor::evaluate
