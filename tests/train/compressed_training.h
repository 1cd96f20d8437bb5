// A training whose matrices are of several code blocks, which ZeRO cuts between ranks, with compressed gradients.
#pragma once

#include <string>

#include "train/small_training.h"

namespace athanor::tests {

inline Config compressed_blocks(const std::string& kind, const std::string& family = "llama") {
  Config config = tiny(family);
  config.precision.compute = "f32";
  config.model.hidden_size = 48;
  config.model.head_dim = 12;
  config.train.global_batch_size = 16;  // eight micro-batches
  config.optimizer.lr = 1e-3;
  config.schedule.decay = "constant";  // runs may end early
  config.compression.method = kind;
  config.compression.ratio = 0.05;
  config.compression.rank = 2;
  config.compression.warmup_steps = 0;
  return config;
}

}  // namespace athanor::tests
