// One optimizer step over a parameter, in one pass: unscale and clip the gradient, update the f32 master,
// write the copy that the model computes with.
//
//   adamw   (Loshchilov & Hutter, 2019)  g = grad * grad_scale;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
//           master -= lr * weight_decay * master;  master -= lr * (m / c1) / (sqrt(v / c2) + eps)
//           with c1 = 1 - b1^t, c2 = 1 - b2^t computed in double by the caller
//   sgd     g = grad * grad_scale + weight_decay * master;  m = momentum m + g;  master -= lr * m
//
// master, m, v, grad f32 of one shape; value T of that shape, or null where the master itself is the value.
#pragma once

namespace athanor {

class Queue;
class Tensor;

struct AdamwStep {
  float lr, beta1, beta2, eps, weight_decay;
  float correction1, correction2;  // c1, c2
  float grad_scale;                // 1 / (tokens * loss scale), times the clipping factor
};

struct SgdStep {
  float lr, momentum, weight_decay, grad_scale;
};

struct OptimizerKernels {
  void (*adamw)(Queue&, Tensor& master, Tensor& m, Tensor& v, Tensor* value, const Tensor& grad,
                const AdamwStep&);
  void (*sgd)(Queue&, Tensor& master, Tensor& m, Tensor* value, const Tensor& grad, const SgdStep&);
};

}  // namespace athanor
