#include <algorithm>

#include "athanor/pipeline/generators.h"

namespace athanor::pipeline {

Schedule one_f_one_b(int p, int m) {
  Schedule schedule{"1f1b", loop_placement(p, 1), m, {}};
  for (int rank = 0; rank < p; ++rank) {
    auto& actions = schedule.ranks.emplace_back();
    const int warmup = std::min(p - 1 - rank, m);
    for (int micro = 0; micro < warmup; ++micro) actions.push_back({Act::forward, rank, micro});
    for (int micro = warmup; micro < m; ++micro) {
      actions.push_back({Act::forward, rank, micro});
      actions.push_back({Act::backward, rank, micro - warmup});
    }
    for (int micro = m - warmup; micro < m; ++micro) actions.push_back({Act::backward, rank, micro});
  }
  return schedule;
}

// The bubble equals GPipe's; 1F1B saves memory, not time.
std::optional<double> one_f_one_b_bubble(int p, const StageCost& t) {
  return gpipe_bubble(p, t);
}

}  // namespace athanor::pipeline
