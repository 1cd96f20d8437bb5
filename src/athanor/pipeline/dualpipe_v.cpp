#include <algorithm>
#include <deque>

#include "athanor/pipeline/generators.h"

namespace athanor::pipeline {

// As in zb_v, rank r has stages r (down) and 2p-1-r (up). Weight gradients are deferred only near the ends, and run in
// the order in which they were deferred.
Schedule dualpipe_v(int p, int m) {
  const int made_for = std::max(m, 2 * p);
  Schedule schedule{"dualpipe-v", v_placement(p, 2), made_for, {}};
  for (int rank = 0; rank < p; ++rank) {
    auto& actions = schedule.ranks.emplace_back();
    std::deque<Action> due;
    struct Side {
      int stage, forward = 0, backward = 0;
    } down{rank}, up{2 * p - 1 - rank};
    const auto f = [&](Side& side) { actions.push_back({Act::forward, side.stage, side.forward++}); };
    const auto b = [&](Side& side) { actions.push_back({Act::backward, side.stage, side.backward++}); };
    const auto i = [&](Side& side) {
      due.push_back({Act::weight_grad, side.stage, side.backward});
      actions.push_back({Act::input_grad, side.stage, side.backward++});
    };
    const auto w = [&] {
      actions.push_back(due.front());
      due.pop_front();
    };
    const int below = p - 1 - rank;

    for (int k = 0; k < 2 * below; ++k) f(down);
    for (int k = 0; k <= rank; ++k) f(down), f(up);
    for (int k = 0; k < below; ++k) i(up), w(), f(up);
    for (int k = 0; k < made_for - 2 * p + rank + 1; ++k) f(down), b(up), f(up), b(down);
    for (int k = 0; k < below; ++k) b(up), f(up), b(down);
    // The second half of these actions defers its weight gradients. (The half of an odd middle action alternates.)
    const int backwards = 2 * (rank + 1), whole = (rank + 1) / 2 * 2 + (rank % 2 == 0 ? 1 : 0);
    for (int k = 0; k < backwards; ++k) {
      Side& side = k % 2 == 0 ? up : down;
      k < whole ? b(side) : i(side);
    }
    for (int k = 0; k < below; ++k) w(), i(down);
    while (!due.empty()) w();
  }
  return without_surplus(std::move(schedule), m);
}

std::optional<double> dualpipe_v_bubble(int p, int m, const StageCost& t) {
  if (m < 2 * p || t.input > t.forward || t.forward > t.input + t.weight) return std::nullopt;
  return (p - 1) * (t.forward + std::max(0.0, t.input - t.weight));
}

}  // namespace athanor::pipeline
