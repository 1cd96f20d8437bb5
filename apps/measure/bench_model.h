// A model that takes training steps (forward, loss, backward, clip, AdamW), for measurements.
//
//   BenchModel bench(config, *queue);                     // validates the config, allocates and initializes
//   const StepResult first = bench.step(bench.random_batch(0));
//   bench.check_first(first);                             // the loss is close to that of guessing
#pragma once

#include <memory>

#include "athanor/engine/memory_plan.h"
#include "athanor/engine/setup.h"

namespace athanor::apps {

// A preset with room for sequences of this length, whose step is a single micro-batch.
Config bench_config(const std::string& preset, int64_t batch, int64_t seq, int64_t steps);

class BenchModel {
 public:
  // ConfigError for an invalid config, Error if the model does not fit into memory.
  BenchModel(const Config& config, Queue& queue, int64_t num_channels = 1);

  Batch random_batch(int64_t step) const;
  StepResult step(const Batch& batch);
  StepResult step(const std::function<const Batch&()>& next_batch);
  // Error if the loss of a fresh model is not that of guessing, or if a later loss is not finite.
  void check_first(const StepResult& result) const;

  double flops_per_token() const;
  Arena& arena() { return arena_; }
  const Config& config() const { return config_; }
  Training& training() { return training_; }
  const TrainState& state() const { return state_; }

 private:
  Config config_;
  Arena arena_;
  MemoryPlan plan_;
  std::unique_ptr<World> world_;
  Groups groups_;
  std::unique_ptr<SnapshotSlots> slots_;
  Training training_;
  TrainState state_;
};

}  // namespace athanor::apps
