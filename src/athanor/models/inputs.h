// What a pass through a model reads, beside hidden states: tensors by name.
//
//   const Var loss = model->loss(tape, {.ids = ids, .targets = targets}, /*recompute=*/{});
//
// Undefined: the model has no such input, or the pass does not need it. Stages in the middle of a pipeline read none.
// Thread rule: plain data.
#pragma once

#include "athanor/tensor/tensor.h"

namespace athanor::models {

struct ModelInputs {
  Tensor ids;           // [B,S] i32
  Tensor targets = {};  // [B,S] i32: what the model is to say at each place; negative: nothing
  Tensor token_types =
      {};  // [B,S] i32, of models with type_vocab_size: which text of a pair a token is of; undefined: 0
};

}  // namespace athanor::models
