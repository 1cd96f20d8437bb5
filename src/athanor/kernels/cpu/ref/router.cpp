#include <algorithm>
#include <cmath>
#include <limits>

#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::kernels::ref {
namespace {

float sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}

float log_sum_exp(const float* logits, int64_t experts) {
  const float largest = *std::max_element(logits, logits + experts);
  double sum = 0;
  for (int64_t e = 0; e < experts; ++e) sum += std::exp(logits[e] - largest);
  return static_cast<float>(largest + std::log(sum));
}

// A score, before any division by a sum over experts.
float score(float logit, float lse, bool is_sigmoid) {
  return is_sigmoid ? sigmoid(logit) : std::exp(logit - lse);
}

// Keeps the sum of the chosen sigmoids above zero; too small to change any other sum.
constexpr float kTinySum = 1e-20f;

// Sums of one token over the experts and over the chosen ones.
struct Totals {
  float all = 1, chosen = 0;
};

Totals totals(const float* logits, float lse, const int32_t* chosen, int64_t experts, const RouterRow& row) {
  Totals sum;
  if (row.is_sigmoid) {
    sum.all = kTinySum;
    for (int64_t e = 0; e < experts; ++e) sum.all += sigmoid(logits[e]);
  }
  for (int64_t k = 0; k < row.experts_per_token; ++k)
    sum.chosen += score(logits[chosen[k]], lse, row.is_sigmoid);
  sum.chosen += kTinySum;
  return sum;
}

void forward(int32_t* chosen, float* weights, float* lse, double* sums, const float* logits,
             const float* bias, int64_t experts, const RouterRow& row) {
  *lse = log_sum_exp(logits, experts);
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const auto rank_of = [&](int64_t e) {
    const float value = score(logits[e], *lse, row.is_sigmoid) + (bias == nullptr ? 0.0f : bias[e]);
    return std::isnan(value) ? kNever : value;
  };
  // Insertion into the K best so far: a later expert comes before an earlier one only if it is larger.
  const int64_t places = row.experts_per_token;
  for (int64_t e = 0; e < experts; ++e) {
    const float value = rank_of(e);
    int64_t place = std::min(e, places);
    while (place > 0 && value > weights[place - 1]) --place;
    for (int64_t k = std::min(e, places - 1); k > place; --k) {
      weights[k] = weights[k - 1];
      chosen[k] = chosen[k - 1];
    }
    if (place < places) {
      weights[place] = value;
      chosen[place] = static_cast<int32_t>(e);
    }
  }
  const Totals total = totals(logits, *lse, chosen, experts, row);
  for (int64_t k = 0; k < places; ++k)
    weights[k] =
        row.scale * score(logits[chosen[k]], *lse, row.is_sigmoid) / (row.renormalize ? total.chosen : 1.0f);
  for (int64_t e = 0; e < experts; ++e)
    sums[e] += static_cast<double>(score(logits[e], *lse, row.is_sigmoid) / total.all);
  sums[experts] += double{*lse} * *lse;
}

// With g = the gradient of a score: softmax dlogit_e = s_e (g_e - sum_j s_j g_j), sigmoid dlogit = s (1 - s) g.
// For weights s_k / S: g_k = (dw_k - sum_j dw_j s_j / S) / S; for s_e / sum s the formula is the same.
void backward(float* dlogits, const float* dweights, const float* logits, const int32_t* chosen, float lse,
              const float* share, int64_t experts, const RouterRow& row) {
  const Totals total = totals(logits, lse, chosen, experts, row);
  const float aux = row.loss_scale * row.aux_loss * static_cast<float>(experts);
  float mean_share = 0, mean_dweight = 0;
  for (int64_t e = 0; e < experts; ++e)
    mean_share += share[e] * score(logits[e], lse, row.is_sigmoid) / total.all;
  for (int64_t k = 0; k < row.experts_per_token; ++k)
    mean_dweight += dweights[k] * score(logits[chosen[k]], lse, row.is_sigmoid) / total.chosen;
  // First the gradients of the scores.
  for (int64_t e = 0; e < experts; ++e)
    dlogits[e] = row.is_sigmoid ? aux * (share[e] - mean_share) / total.all : aux * share[e];
  for (int64_t k = 0; k < row.experts_per_token; ++k)
    dlogits[chosen[k]] +=
        row.scale * (row.renormalize ? (dweights[k] - mean_dweight) / total.chosen : dweights[k]);
  float mean = 0;
  for (int64_t e = 0; e < experts; ++e) mean += dlogits[e] * std::exp(logits[e] - lse);
  for (int64_t e = 0; e < experts; ++e) {
    const float s = score(logits[e], lse, row.is_sigmoid);
    dlogits[e] = row.is_sigmoid ? dlogits[e] * s * (1 - s) : s * (dlogits[e] - mean);
    dlogits[e] += row.loss_scale * row.z_loss * 2 * lse * std::exp(logits[e] - lse);
  }
}

}  // namespace

RouterRows router() {
  return {forward, backward};
}

}  // namespace athanor::kernels::ref
