#include <algorithm>

#include "athanor/pipeline/generators.h"

namespace athanor::pipeline {

// Micro-batches go in groups of p: a group passes through all stages of a rank, chunk by chunk, before the
// next one enters. So the order of forwards (and, chunks reversed, of backwards) is the same on every rank,
// and a rank differs from the next in when its first backward comes: two actions earlier.
Schedule interleaved(int p, int m, int v) {
  const int made_for = (m + p - 1) / p * p, all = made_for * v;
  Schedule schedule{"interleaved", loop_placement(p, v), made_for, {}};
  const auto action = [&](Act act, int rank, int k) {
    const int group = k / (p * v), within = k % (p * v);
    const int chunk = act == Act::forward ? within / p : v - 1 - within / p;
    return Action{act, chunk * p + rank, group * p + within % p};
  };
  for (int rank = 0; rank < p; ++rank) {
    auto& actions = schedule.ranks.emplace_back();
    const int warmup = std::min(all, (v - 1) * p + 2 * (p - 1 - rank));
    for (int k = 0; k < warmup; ++k) actions.push_back(action(Act::forward, rank, k));
    for (int k = warmup; k < all; ++k) {
      actions.push_back(action(Act::forward, rank, k));
      actions.push_back(action(Act::backward, rank, k - warmup));
    }
    for (int k = all - warmup; k < all; ++k) actions.push_back(action(Act::backward, rank, k));
  }
  return without_surplus(std::move(schedule), m);
}

std::optional<double> interleaved_bubble(int p, int m, const StageCost& t) {
  return m % p == 0 ? gpipe_bubble(p, t) : std::nullopt;
}

}  // namespace athanor::pipeline
