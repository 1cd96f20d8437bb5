// TrainState: all that must survive beside the tensors (law 5). Weights and optimizer state are tensors of
// the checkpoint; everything else that a bitwise resume needs is here. The data cursor is the step (law 3),
// the position of every random stream is the step too (law 2).
#pragma once

#include <cstdint>
#include <string>

#include "athanor/optim/loss_scale.h"

namespace athanor {

struct TrainState {
  int64_t step = 0;     // steps done
  int64_t tokens = 0;   // tokens trained on
  int64_t updates = 0;  // optimizer updates: steps that were not skipped
  uint64_t seed = 1;
  LossScale loss_scale;
  std::string data_identity;  // what the data was (data/dataset.h)

  std::string to_json() const;
  static TrainState from_json(const std::string& text);  // Error naming what is missing
};

}  // namespace athanor
