// What a worker has of one column of ranks: its values, as they come from the servers, and the sums that go to them.
//
//   WorkerColumn column(weights, {.ranks = all, .peers = workers, .settings = settings}, arena, clock);
//   column.allocate();                                        // when the parameters have memory
//   column.gradients().begin_step(settings.num_grains);       // ...
//   column.values().pull();
//
// Thread rule: one thread.
#pragma once

#include <memory>

#include "athanor/parallel/parameter_server/pulled_values.h"
#include "athanor/parallel/parameter_server/pushed_gradients.h"

namespace athanor {

class WorkerColumn {
 public:
  WorkerColumn(const std::vector<Weight*>& weights, const Column& column, Arena& arena, WaitClock& clock)
      : column_(column),
        arena_(arena),
        clock_(clock),
        buckets_(weights, column.settings.buckets()),
        values_(buckets_, column.ranks, arena, column.settings, clock) {}
  void allocate() {
    gradients_ = std::make_unique<PushedGradients>(buckets_, column_.peers, column_.ranks, arena_,
                                                   column_.settings, clock_);
  }

  const ServerSettings& settings() const { return column_.settings; }
  Group& ranks() { return column_.ranks; }
  bool has(const Weight& weight) const { return buckets_.places.contains(&weight); }
  PulledValues& values() { return values_; }
  PushedGradients& gradients() { return *gradients_; }
  const PushedGradients& gradients() const { return *gradients_; }

 private:
  Column column_;
  Arena& arena_;
  WaitClock& clock_;
  Buckets buckets_;
  PulledValues values_;
  std::unique_ptr<PushedGradients> gradients_;
};

}  // namespace athanor
