// Recompute (Chen et al., "Training deep nets with sublinear memory cost", 2016): keep only a block's input,
// run the block again in the backward pass. Random numbers have addresses, so the second run has the same
// bits.
//
//   Var y = recompute(x, [&](const Var& input) { return block(input); });
//
// `block` must compute on the tape of the Var it is given, and is called once forward and once more backward.
#pragma once

#include <functional>

#include "athanor/autograd/tape.h"

namespace athanor {

Var recompute(const Var& x, std::function<Var(const Var&)> block);

}  // namespace athanor
