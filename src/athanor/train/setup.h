// The parts of a training run, put together from its config: model, optimizer, data parallelism and step.
// Used by the trainer, by `bench step` and, on the null device, by the memory plan: they all run the same
// code.
//
//   Training training(config, num_channels, group, arena, trace, stop);   // declared, nothing allocated
//   training.split(sharding_of(config.model, config.parallel.sp), tensor_group);   // optional: tensor parallelism
//   training.allocate();                                                   // or: and initialize() / load
//   training.runner->run(state, next_batch);
//
// `group` are the ranks that share out the grains (dp); the ranks of a tensor group (tp) compute the same
// grains, each its part of the model. The config must be resolved (config/presets.h). Thread rule: one
// thread.
#pragma once

#include <atomic>
#include <memory>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/config/config.h"
#include "athanor/models/sharding.h"
#include "athanor/train/step.h"

namespace athanor {

struct Training {
  Training(const Config& config, int64_t num_channels, Group& group, Arena& arena, Trace* trace,
           const std::atomic<int>* stop);
  void split(const Sharding& sharding, Group& tensor_group);  // before allocate()
  void allocate();                                            // parameters, optimizer state, gradient buckets
  // This rank's slices of weights and optimizer state as the logical tensors of a checkpoint: "model.NAME",
  // "adam.m.NAME", ...
  std::vector<NamedTensor> tensors() const;
  void load(const Checkpoint& checkpoint);  // all of them

  Dtype compute;
  int64_t num_grains;
  Arena& arena;
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<DataParallel> parallel;
  std::unique_ptr<StepRunner> runner;

 private:
  Group& group_;
  DataParallelOptions parallel_options_;
  StepOptions step_options_;
};

TrainState first_state(const Config& config);

}  // namespace athanor
