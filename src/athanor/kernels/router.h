// The router of a mixture of experts: which experts a token goes to, and with what weights.
//
//   score s [N,E]   softmax (Fedus et al., Switch Transformers, 2021; Jiang et al., Mixtral of Experts, 2024)
//                   or sigmoid (DeepSeek-AI, DeepSeek-V3, 2024) of the logits
//   experts [N,K]   the K largest of s + bias, the largest first; of equal ones the lower index first
//   weights [N,K]   s of the chosen experts, without the bias; divided by their sum if `renormalize`; times `scale`
//   lse [N]         log sum exp of the logits
//   sums [E+1] f64  sums over the tokens, in order: [e] of s (sigmoid: of s divided by its sum over the experts),
//                   [E] of lse^2
//
// backward: dlogits = the gradient of
//   sum_nk weights . dweights + loss_scale . (aux_loss . E . sum_e share_e . sums_e + z_loss . sum_n lse^2)
// with share_e = the fraction of all N K choices that fell on expert e, a constant. The last two terms are the
// auxiliary load-balancing loss of Switch Transformers and the router z-loss of ST-MoE (Zoph et al., 2022), as sums
// over tokens. The choice of experts and the bias have no gradient.
//
// logits, dlogits [N,E], weights, dweights [N,K], lse [N], bias [E] (may be null), share [E] f32;  experts i32.
// A NaN logit is never chosen before a number. Tokens do not affect each other.
#pragma once

#include <cstdint>

#include "athanor/tensor/forward.h"

namespace athanor::kernels {

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

}  // namespace athanor::kernels
