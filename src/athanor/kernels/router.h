// The router of a mixture of experts: which experts a token goes to, and with what weights.
//
//   score s [N,E]   softmax (Fedus et al., Switch Transformers, 2021; Jiang et al., Mixtral of Experts, 2024)
//                   or sigmoid (DeepSeek-AI, DeepSeek-V3, 2024) of the logits
//   experts [N,K]   the K largest of s + bias, the largest first, of equal ones the lower index first
//   weights [N,K]   s of those, without the bias; with `renormalize` divided by their sum; times `scale`
//   lse [N]         log sum exp of the logits
//   sums [E+1] f64  over the tokens, in order: of s (sigmoid: of s divided by its sum over the experts), and at
//                   last of lse^2
//
// backward: dlogits = the gradient of
//   sum_nk weights . dweights + loss_scale . (aux_loss . E . sum_e share_e . sums_e + z_loss . sum_n lse^2)
// with share_e = the part of all N K choices that fell on e, a constant: the auxiliary load-balancing loss of
// Switch Transformers and the router z-loss of ST-MoE (Zoph et al., 2022), each as a sum over tokens. The choice
// of experts has no gradient, nor has the bias.
//
// logits, dlogits [N,E], weights, dweights [N,K], lse [N], bias [E] (may be null), share [E] f32;  experts i32.
// A logit that is not a number is never chosen before one that is. Tokens are independent of each other.
#pragma once

#include <cstdint>

namespace athanor {

class Queue;
class Tensor;

enum class RouterScore : uint8_t { softmax, sigmoid };

struct RouterOptions {
  RouterScore score = RouterScore::softmax;
  bool renormalize = true;
  float scale = 1.0f;
  float aux_loss = 0.0f, z_loss = 0.0f;  // coefficients; used by backward only
};

struct RouterKernels {
  void (*forward)(Queue&, Tensor& experts, Tensor& weights, Tensor& lse, Tensor& sums, const Tensor& logits,
                  const Tensor* bias, const RouterOptions& options);
  void (*backward)(Queue&, Tensor& dlogits, const Tensor& dweights, const Tensor& logits,
                   const Tensor& experts, const Tensor& lse, const Tensor& share,
                   const RouterOptions& options, float loss_scale);
};

}  // namespace athanor
