// TrainState: everything beside the tensors that a bitwise resume needs (law 5). Weights and optimizer state are
// tensors of the checkpoint; TrainState is its `state`. The data cursor and the position of every random stream are
// functions of the step and the decisions (laws 3 and 2).
//
//   checkpoint_content.state = state.to_json();
//   TrainState again = TrainState::from_json(checkpoint.state());
//
// Errors: Error for a text that is no such state. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/engine/decisions.h"
#include "athanor/optim/loss_scale.h"

namespace athanor::engine {

struct TrainState {
  int64_t step = 0;     // steps completed
  int64_t tokens = 0;   // tokens trained on
  int64_t updates = 0;  // optimizer updates: steps that were not skipped
  uint64_t seed = 1;
  LossScale loss_scale;
  std::string data_identity;        // what the data was (data/dataset.h)
  std::vector<Decision> decisions;  // up to `step`; a state without the field has none

  // Takes those of `all` that the steps done have followed; `all` begins with `decisions`.
  void follow(const std::vector<Decision>& all);

  std::string to_json() const;
  static TrainState from_json(const std::string& text);  // Error naming what is missing
};

}  // namespace athanor::engine
