// The end of a residual branch: h + dropout(linear(x)). Without dropout the sum is made in the same pass as the
// product. h, result [..., O]; x [..., I].
//
//   h = add_residual(h, attn.output(), dropout, attn(norm(h), &rope_table, /*cache=*/nullptr));
//
// Thread rule: that of the model.
#pragma once

#include "athanor/nn/dropout.h"
#include "athanor/nn/linear.h"

namespace athanor::nn {

inline Var add_residual(const Var& h, const Linear& linear, const Dropout& dropout, const Var& x) {
  if (dropout.drops(*x.tape)) return add(h, dropout(linear(x)));
  return linear.add_to(h, x);
}

}  // namespace athanor::nn
