// One fused optimizer step over parameters. One pass over a parameter unscales and clips its gradient, updates its f32
// master and writes the bf16 or f16 copy that the model computes with.
//
//   kernels_of(x).optimizer.adamw(queue, {&tensors, 1}, step);   // one parameter; many in one call share the threads
//
//   adamw   (Loshchilov & Hutter, 2019)  g = grad * grad_scale;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
//           master -= lr * weight_decay * master;  master -= lr * (m / c1) / (sqrt(v / c2) + eps)
//           with c1 = 1 - b1^t, c2 = 1 - b2^t computed in double by the caller
//           lr is that of the step times lr_ratio of the tensors; the caller sets c1 = c2 = 1 for no bias correction
//   lamb_squares  changes nothing: of each norm block of kNormBlock elements from the first one, squares gets the sum of
//           master^2, then that of r^2, with r = (m / c1) / (sqrt(v / c2) + eps) + weight_decay * master of the m and v
//           that adamw is about to write. Sums are f64 in a fixed order. It is for the CPU
//   sgd     g = grad * grad_scale + weight_decay * master;  m = momentum m + g;  master -= lr * m
//
// master, m, v, grad f32 of one shape; value T of that shape, or undefined where the model computes with the master.
// The tensors of a call do not overlap.
//
// Out of place: where to_master.tensor is defined (f32, of master's shape), the new master goes there and master is only
// read; likewise m and v. Results are the same bits as in place. Large ones are written past the caches. `checksums`
// gets base/block_checksum.h of each block of the result, numbered from the first element: num_checksum_blocks() of them.
// Both are for the CPU; a CUDA device refuses them.
//
//   tensors.to_master = {b, checksums};   // from one slot of a snapshot to the other
#pragma once

#include <cstdint>
#include <span>

#include "athanor/tensor/tensor.h"

namespace athanor::kernels {

// Where a result goes.
struct Destination {
  Tensor tensor = {};             // undefined: in place
  uint64_t* checksums = nullptr;  // of the result's blocks; null: none are taken
};

struct AdamwTensors {
  Tensor master, m, v, value, grad;
  float weight_decay;
  Destination to_master = {}, to_m = {}, to_v = {};
  float lr_ratio = 1.0f;
};

struct LambTensors {
  Tensor master, m, v, grad;
  float weight_decay;
  double* squares;  // [2 * number of norm blocks]
};

struct AdamwStep {
  float lr, beta1, beta2, eps;
  float correction1, correction2;  // c1, c2
  float grad_scale;                // 1 / (tokens * loss scale), times the clipping factor
};

struct SgdTensors {
  Tensor master, m, value, grad;
  float weight_decay;
  Destination to_master = {}, to_m = {};
  float lr_ratio = 1.0f;
};

struct SgdStep {
  float lr, momentum, grad_scale;
};

struct OptimizerKernels {
  void (*adamw)(Queue&, std::span<const AdamwTensors>, const AdamwStep&);
  void (*sgd)(Queue&, std::span<const SgdTensors>, const SgdStep&);
  void (*lamb_squares)(Queue&, std::span<const LambTensors>, const AdamwStep&);
};

}  // namespace athanor::kernels
