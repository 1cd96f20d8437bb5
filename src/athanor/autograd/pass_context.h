// What operations need to know about the pass that they are in: a forward pass of a micro-batch, and its backward.
//
//   Tape tape({.seed = 7, .step = 12, .record = true, .dropout = true});
//
// Thread rule: plain data; what it points to outlives the Tape.
#pragma once

#include <cstdint>
#include <functional>

#include "athanor/autograd/activation_store.h"
#include "athanor/tensor/tensor.h"

namespace athanor::autograd {

struct SequencePart;

struct PassContext {
  uint64_t seed = 0;
  uint64_t step = 0;
  int64_t micro_batch = 0;     // number among this rank's micro-batches of the step (Weight::grad_ready)
  int64_t first_sequence = 0;  // index in the step's global batch of the first sequence in this pass (law 2)
  int64_t num_sequences = 0, seq_len = 0;  // of this pass; used where ranks partition its tokens
  const SequencePart* part = nullptr;      // context parallelism (sequence_part.h); null: full sequences
  // Document mask, [num_sequences, full length] i32: the position at which each token's document begins; attention to
  // earlier positions is masked. Undefined: every sequence is one document.
  Tensor document_starts = {};
  // The same shape: the position after the last one of each token's document. Beside document_starts where tokens see
  // later ones.
  Tensor document_ends = {};
  bool record = false;                     // record for backward()
  bool dropout = false;                    // training: apply dropout and the capacity of experts
  float loss_scale = 1.0f;                 // factor on the loss and so on all gradients (f16)
  ActivationStore* activations = nullptr;  // activation offload; null: activations stay in memory
  // Called between operations, forward and backward; throws where the rest of the pass would be in vain. Null: nothing.
  const std::function<void()>* between_operations = nullptr;

  void look_up() const {
    if (between_operations != nullptr) (*between_operations)();
  }
};

}  // namespace athanor::autograd
