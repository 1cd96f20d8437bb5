// The end of a residual branch: h + dropout(linear(x)). Where nothing is dropped the sum is made as the product is
// written. h, result [..., O]; x [..., I].
#pragma once

#include "athanor/nn/dropout.h"
#include "athanor/nn/linear.h"

namespace athanor {

inline Var add_residual(const Var& h, const Linear& linear, const Dropout& dropout, const Var& x) {
  if (dropout.drops(*x.tape)) return add(h, dropout(linear(x)));
  return linear.add_to(h, x);
}

}  // namespace athanor
