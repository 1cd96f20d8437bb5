// Small trainings with compressed gradients.
#pragma once

#include <string>

#include "train/small_training.h"

namespace athanor::tests {

// Of five micro-batches.
inline Config compressed(const std::string& kind, const std::string& family = "llama",
                         const std::string& optimizer = "adamw") {
  Config config = tiny(family);
  config.precision.compute = "f32";
  config.optimizer.name = optimizer;
  config.compression.method = kind;
  config.compression.ratio = 0.05;
  config.compression.rank = 3;
  return config;
}

// Of four micro-batches, with a lower rate.
inline Config compressed_gently(const std::string& kind, const std::string& family = "llama") {
  Config config = eight_experts(compressed(kind, family));
  config.train.global_batch_size = 8;
  config.optimizer.lr = 1e-3;
  config.schedule.decay = "constant";
  config.compression.ratio = 0.2;
  config.compression.rank = 4;
  config.compression.warmup_steps = kind == "onebit-adam" ? 2 : 0;
  return config;
}

// Of eight micro-batches, whose matrices ZeRO cuts between ranks.
inline Config compressed_blocks(const std::string& kind, const std::string& family = "llama") {
  Config config = eight_experts(several_blocks(compressed(kind, family)));
  config.train.global_batch_size = 16;
  config.optimizer.lr = 1e-3;
  config.schedule.decay = "constant";
  config.compression.rank = 2;
  config.compression.warmup_steps = 0;
  return config;
}

// The first so many steps of 1-bit Adam are plain Adam's.
constexpr int64_t kPlainSteps = 2;
inline Config onebit_blocks(const std::string& family) {
  Config config = compressed_blocks("onebit-adam", family);
  config.compression.warmup_steps = kPlainSteps;
  config.train.steps = 5;
  return config;
}

// 1-bit Adam of five micro-batches, and three plain steps.
inline Config onebit(const std::string& family) {
  Config config = compressed("onebit-adam", family);
  config.train.steps = 8;
  config.compression.warmup_steps = 3;
  return config;
}

}  // namespace athanor::tests
