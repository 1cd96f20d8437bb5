#include <algorithm>

#include "athanor/pipeline/generators.h"

namespace athanor::pipeline {

Schedule breadth_first(int p, int m, int v) {
  Schedule schedule{"bfs", loop_placement(p, v), m, {}};
  for (int rank = 0; rank < p; ++rank) {
    auto& actions = schedule.ranks.emplace_back();
    for (int chunk = 0; chunk < v; ++chunk)
      for (int micro = 0; micro < m; ++micro) actions.push_back({Act::forward, chunk * p + rank, micro});
    for (int chunk = v - 1; chunk >= 0; --chunk)
      for (int micro = 0; micro < m; ++micro) actions.push_back({Act::backward, chunk * p + rank, micro});
  }
  return schedule;
}

// With fewer micro-batches than ranks, every turn of the loop waits until the first micro-batch comes round again.
std::optional<double> breadth_first_bubble(int p, int m, int v, const StageCost& t) {
  return (p - 1 + (v - 1) * std::max(0, p - m)) * (t.forward + t.input + t.weight);
}

}  // namespace athanor::pipeline
