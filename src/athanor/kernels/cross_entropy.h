// Softmax cross-entropy of rows of logits. The gradient is made in the same pass over the logits as the loss.
//
//   kernels_of(logits).cross_entropy.rows(queue, loss, &dlogits, logits, targets, vocabulary, scale);
//
//   loss[n]    = logsumexp(logits[n]) - logits[n, target[n]]
//   dlogits[n] = scale * (softmax(logits[n]) - onehot)
//
// logits [N,V] f32;  targets [N] i32: a negative target is ignored (loss 0, gradient 0), a target >= `classes` is an
// Error; loss [N] f32;  dlogits [N,V] T, or null if no gradient is wanted; with T = f32 dlogits may be the logits
// themselves. Only the first `classes` columns are real. The other columns pad V and have probability 0.
//
// Vocabulary-parallel loss (Megatron-LM): each rank has the columns [first, first + count) of `total` classes.
//   statistics  s[n] = (largest logit, sum of exp(logit - largest), logit of the target or 0) of the rank's columns
//   gradient    dlogits of the rank's columns, from the statistics merged over all ranks
// statistics [N,3] f32. The sum of a rank without columns is 0.
#pragma once

#include <cstdint>

#include "athanor/tensor/forward.h"

namespace athanor::kernels {

struct ClassRange {
  int64_t first, count, total;
};

struct CrossEntropyKernels {
  void (*rows)(Queue&, Tensor& loss, Tensor* dlogits, const Tensor& logits, const Tensor& targets,
               int64_t classes, float scale);
  void (*statistics)(Queue&, Tensor& statistics, const Tensor& logits, const Tensor& targets,
                     const ClassRange& classes);
  void (*gradient)(Queue&, Tensor& dlogits, const Tensor& logits, const Tensor& statistics,
                   const Tensor& targets, const ClassRange& classes, float scale);
};

}  // namespace athanor::kernels
