// Small trainings with local SGD.
#pragma once

#include <string>

#include "train/small_training.h"

namespace athanor::tests {

// Of eight micro-batches, in replica groups that meet every so many steps.
inline Config local_sgd(const std::string& family, const std::string& optimizer, int64_t every = 3) {
  Config config = eight_experts(tiny(family));
  config.precision.compute = "f32";
  config.train.global_batch_size = 16;
  config.train.steps = 6;
  config.optimizer.name = optimizer;
  config.optimizer.lr = optimizer == "adamw" ? 1e-3 : 1e-1;
  config.parallel.reduce = "tree";  // inside a replica group: the bits of one process
  config.local_sgd.sync_interval = every;
  return config;
}

// What the replica groups skip together: steps that overflow, where the scale is large.
inline Config local_sgd_in_f16(const std::string& optimizer, double scale) {
  Config config = several_blocks(local_sgd("llama", optimizer));
  config.precision.compute = "f16";
  config.precision.loss_scale = scale;
  config.precision.loss_scale_window = 2;
  return config;
}

}  // namespace athanor::tests
