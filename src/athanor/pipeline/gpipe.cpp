#include "athanor/pipeline/generators.h"

namespace athanor::pipeline {

Schedule gpipe(int p, int m) {
  Schedule schedule{"gpipe", loop_placement(p, 1), m, {}};
  for (int rank = 0; rank < p; ++rank) {
    auto& actions = schedule.ranks.emplace_back();
    for (const Act act : {Act::forward, Act::backward})
      for (int micro = 0; micro < m; ++micro) actions.push_back({act, rank, micro});
  }
  return schedule;
}

// The first micro-batch reaches the last rank after (p-1)F, the last gradient the first rank after (p-1)B.
std::optional<double> gpipe_bubble(int p, const StageCost& t) {
  return (p - 1) * (t.forward + t.input + t.weight);
}

}  // namespace athanor::pipeline
