#include <algorithm>

#include "athanor/pipeline/generators.h"

namespace athanor::pipeline {

// Rank r has stage r on the way down the V and stage 2p-1-r on the way up. A stage's counters say which
// micro-batch is next; a phase is a row of actions and how often it is repeated.
Schedule zb_v(int p, int m) {
  const int made_for = std::max(m, 2 * p - 1);
  Schedule schedule{"zb-v", v_placement(p, 2), made_for, {}};
  for (int rank = 0; rank < p; ++rank) {
    auto& actions = schedule.ranks.emplace_back();
    struct Side {
      int stage, forward = 0, input = 0, weight = 0;
    } down{rank}, up{2 * p - 1 - rank};
    const auto f = [&](Side& side) {
      if (side.forward < made_for) actions.push_back({Act::forward, side.stage, side.forward++});
    };
    const auto i = [&](Side& side) { actions.push_back({Act::input_grad, side.stage, side.input++}); };
    const auto w = [&](Side& side) { actions.push_back({Act::weight_grad, side.stage, side.weight++}); };

    // The first micro-batch goes down past the ranks below and comes back.
    for (int k = 0; k < 2 * (p - rank) - 1; ++k) f(down);
    for (int k = 0; k < rank; ++k) f(up), f(down);
    // Gradients start from the loss on rank 0.
    for (int k = 0; k < p - rank; ++k) f(up), i(up), w(up);
    // Each turn brings one micro-batch in and one out, on either side.
    while (up.forward < made_for) f(down), i(down), w(down), f(up), i(up), w(up);
    // The end: input gradients go up the V as fast as they can, weight gradients fill the rest.
    for (int k = 0; k < rank; ++k) i(down), i(up);
    for (int k = 0; k < p - rank; ++k) i(down), w(down);
    while (up.weight < made_for) w(up);
    while (down.weight < made_for) w(down);
  }
  return without_surplus(std::move(schedule), m);
}

std::optional<double> zb_v_bubble(int p, int m, const StageCost& t) {
  if (m < 2 * p - 1 || t.forward != t.input || t.weight > t.forward || 2.0 * t.weight < t.forward)
    return std::nullopt;
  return (p - 1) * t.forward;
}

}  // namespace athanor::pipeline
