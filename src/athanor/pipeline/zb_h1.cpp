#include <algorithm>

#include "athanor/pipeline/generators.h"

namespace athanor::pipeline {

// 1F1B, but rank r runs the weight gradient of micro-batch k - r after the input gradient of micro-batch k. So input
// gradients reach the earlier ranks without waiting for weight gradients, and the deferred weight gradients fill the
// end. Rank r holds p - r micro-batches as in 1F1B, plus r with deferred weight gradients: p in total, as rank 0 does.
Schedule zb_h1(int p, int m) {
  Schedule schedule{"zb-h1", loop_placement(p, 1), m, {}};
  for (int rank = 0; rank < p; ++rank) {
    auto& actions = schedule.ranks.emplace_back();
    const int warmup = std::min(p - 1 - rank, m);
    for (int micro = 0; micro < warmup; ++micro) actions.push_back({Act::forward, rank, micro});
    for (int micro = 0; micro < m; ++micro) {
      if (micro + warmup < m) actions.push_back({Act::forward, rank, micro + warmup});
      actions.push_back({Act::input_grad, rank, micro});
      if (micro >= rank) actions.push_back({Act::weight_grad, rank, micro - rank});
    }
    for (int micro = std::max(0, m - rank); micro < m; ++micro)
      actions.push_back({Act::weight_grad, rank, micro});
  }
  return schedule;
}

std::optional<double> zb_h1_bubble(int p, int m, const StageCost& t) {
  if (m < p || t.weight > t.input || t.weight > t.forward) return std::nullopt;
  return (p - 1) * (t.forward + t.input - t.weight);
}

}  // namespace athanor::pipeline
