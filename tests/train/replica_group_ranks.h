// Small trainings with two speeds, run by train_chain() (virtual_ranks.h).
#pragma once

#include "train/virtual_ranks.h"

namespace athanor::tests {

// Of eight micro-batches, in replica groups of `group` ranks that meet every so many steps.
inline Config replica_groups_of_ranks(int64_t every, int64_t group, const char* optimizer = "adamw") {
  Config config = tiny("llama");
  config.precision.compute = "f32";
  config.train.global_batch_size = 16;  // eight micro-batches
  config.train.steps = 6;
  config.optimizer.name = optimizer;
  config.parallel.reduce = "tree";  // inside a replica group: the bits of one process
  config.local_sgd.sync_interval = every;
  config.local_sgd.group_size = group;
  return config;
}

}  // namespace athanor::tests
