// Full recompute (activation checkpointing; Chen et al., "Training deep nets with sublinear memory cost", 2016): keeps
// only the input of a block and runs the block again in the backward pass. Random numbers have addresses, so the second
// run has the same bits.
//
//   Var y = recompute(x, [&](const Var& input) { return block(input); });
//
// `block` must compute on the tape of the Var it is given. It is called once forward and once more backward. Thread
// rule: that of the Tape.
#pragma once

#include <functional>

#include "athanor/autograd/tape.h"

namespace athanor::autograd {

Var recompute(const Var& x, std::function<Var(const Var&)> block);

}  // namespace athanor::autograd
