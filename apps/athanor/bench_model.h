// A model that takes training steps (forward, loss, backward, clip, AdamW), for the measurements that need one.
//
//   BenchModel bench(config, *queue);                     // validated, refused where it does not fit, initialized
//   const StepResult first = bench.step(bench.random_batch(0));
//   bench.check_first(first);                             // close to guessing
#pragma once

#include <memory>

#include "athanor/train/setup.h"

namespace athanor {

// A preset with room for sequences of this length, all of a step in one grain.
Config bench_config(const std::string& preset, int64_t batch, int64_t seq, int64_t steps);

class BenchModel {
 public:
  // ConfigError for a config that is refused, Error where it does not fit into memory.
  BenchModel(const Config& config, Queue& queue, int64_t num_channels = 1);

  Batch random_batch(int64_t step) const;
  StepResult step(const Batch& batch);
  StepResult step(const std::function<const Batch&()>& next_batch);
  // Error where the loss of a fresh model is not that of guessing, or a later one is not finite.
  void check_first(const StepResult& result) const;

  double flops_per_token() const;
  Arena& arena() { return arena_; }
  const Config& config() const { return config_; }
  Training& training() { return training_; }
  const TrainState& state() const { return state_; }

 private:
  Config config_;
  Arena arena_;
  std::unique_ptr<Group> group_;
  Training training_;
  TrainState state_;
};

}  // namespace athanor
