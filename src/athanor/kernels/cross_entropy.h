// Softmax cross-entropy of rows of logits, with its gradient in the same pass over them.
//
//   loss[n]    = logsumexp(logits[n]) - logits[n, target[n]]
//   dlogits[n] = scale * (softmax(logits[n]) - onehot)
//
// logits [N,V] f32;  targets [N] i32, a negative one is ignored (loss 0, gradient 0), one >= V is an Error;
// loss [N] f32;  dlogits [N,V] T, or null where no gradient is wanted; where T is f32 it may be the logits themselves.
// Only the first `classes` columns are real: columns beyond (padding of V) get probability 0.
//
// Where classes are dealt out over ranks, each has the columns of [first, first + count) of `total`:
//   statistics  s[n] = (largest logit, sum of exp(logit - largest), logit of the target or 0) of these columns
//   gradient    the dlogits above for these columns, from the statistics of all columns together
// statistics [N,3] f32. A part of no classes has a sum of 0.
#pragma once

#include <cstdint>

namespace athanor {

class Queue;
class Tensor;

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

}  // namespace athanor
