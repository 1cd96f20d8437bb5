// The router of a mixture of experts (kernels/router.h): a thread for each token, as experts are few.
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

constexpr int64_t kBlockTokens = 64;  // `sums` are formed block by block
constexpr float kTinySum = 1e-20f;    // keeps the sum of chosen sigmoids from being zero

__device__ inline float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}

// A score, before any division by a sum over experts.
__device__ inline float score(float logit, float lse, bool is_sigmoid) {
  return is_sigmoid ? sigmoid(logit) : expf(logit - lse);
}

__device__ inline float log_sum_exp(const float* logits, int64_t experts) {
  float largest = logits[0];
  for (int64_t e = 1; e < experts; ++e) largest = Largest()(largest, logits[e]);
  double sum = 0;
  for (int64_t e = 0; e < experts; ++e) sum += static_cast<double>(expf(logits[e] - largest));
  return static_cast<float>(largest + log(sum));
}

// The sum of a token's scores over all experts, 1 of a softmax.
__device__ inline float sum_of_scores(const float* logits, int64_t experts, bool is_sigmoid) {
  if (!is_sigmoid) return 1;
  float sum = kTinySum;
  for (int64_t e = 0; e < experts; ++e) sum += sigmoid(logits[e]);
  return sum;
}
__device__ inline float sum_of_chosen(const float* logits, const int32_t* chosen, int64_t places, float lse,
                                      bool is_sigmoid) {
  float sum = 0;
  for (int64_t k = 0; k < places; ++k) sum += score(logits[chosen[k]], lse, is_sigmoid);
  return sum + kTinySum;
}

// Insertion into the K best so far: a later expert comes before an earlier one only if it is larger. `ranks` holds
// their values.
__device__ inline void insert(int32_t* chosen, float* ranks, int64_t places, int64_t expert, float value) {
  const float rank = value != value ? -INFINITY : value;
  int64_t place = expert < places ? expert : places;
  while (place > 0 && rank > ranks[place - 1]) --place;
  for (int64_t k = expert < places ? expert : places - 1; k > place; --k) {
    ranks[k] = ranks[k - 1];
    chosen[k] = chosen[k - 1];
  }
  if (place >= places) return;
  ranks[place] = rank;
  chosen[place] = static_cast<int32_t>(expert);
}

__global__ void choose(int32_t* experts, float* weights, float* lse, const float* all_logits,
                       const float* bias, int64_t tokens, int64_t num_experts, int64_t places,
                       RouterOptions options) {
  const int64_t token = element();
  if (token >= tokens) return;
  const bool is_sigmoid = options.score == RouterScore::sigmoid;
  const float* logits = all_logits + token * num_experts;
  int32_t* chosen = experts + token * places;
  float* weight = weights + token * places;
  const float norm = log_sum_exp(logits, num_experts);
  for (int64_t e = 0; e < num_experts; ++e)
    insert(chosen, weight, places, e,
           score(logits[e], norm, is_sigmoid) + (bias == nullptr ? 0.0f : bias[e]));
  const float total = options.renormalize ? sum_of_chosen(logits, chosen, places, norm, is_sigmoid) : 1.0f;
  for (int64_t k = 0; k < places; ++k)
    weight[k] = options.scale * score(logits[chosen[k]], norm, is_sigmoid) / total;
  lse[token] = norm;
}

// A thread for each expert (and one for lse^2) of each block of tokens.
__global__ void sum_partials(double* partials, const float* all_logits, const float* lse, int64_t tokens,
                             int64_t num_experts, bool is_sigmoid, int64_t n) {
  const int64_t i = element();
  if (i >= n) return;
  const int64_t width = num_experts + 1, expert = i % width, first = i / width * kBlockTokens;
  double sum = 0;
  for (int64_t t = first; t < tokens && t < first + kBlockTokens; ++t) {
    const float* logits = all_logits + t * num_experts;
    if (expert == num_experts)
      sum += static_cast<double>(lse[t]) * static_cast<double>(lse[t]);
    else
      sum += static_cast<double>(score(logits[expert], lse[t], is_sigmoid) /
                                 sum_of_scores(logits, num_experts, is_sigmoid));
  }
  partials[i] = sum;
}

__global__ void add_in_order(double* sums, const double* partials, int64_t blocks, int64_t width) {
  const int64_t i = element();
  if (i >= width) return;
  double sum = 0;
  for (int64_t block = 0; block < blocks; ++block) sum += partials[block * width + i];
  sums[i] = sum;
}

// With g = the gradient of a score: softmax dlogit_e = s_e (g_e - sum_j s_j g_j), sigmoid dlogit = s (1 - s) g.
// Of weights that are s_k / S: g_k = (dw_k - sum_j dw_j s_j / S) / S; likewise of s_e / sum s.
__global__ void backward(float* all_dlogits, const float* all_dweights, const float* all_logits,
                         const int32_t* experts, const float* all_lse, const float* share, int64_t tokens,
                         int64_t num_experts, int64_t places, RouterOptions options, float loss_scale) {
  const int64_t token = element();
  if (token >= tokens) return;
  const bool is_sigmoid = options.score == RouterScore::sigmoid;
  const float *logits = all_logits + token * num_experts, *dweights = all_dweights + token * places;
  const int32_t* chosen = experts + token * places;
  float* dlogits = all_dlogits + token * num_experts;
  const float lse = all_lse[token], aux = loss_scale * options.aux_loss * static_cast<float>(num_experts);
  const float all = sum_of_scores(logits, num_experts, is_sigmoid);
  const float of_chosen = sum_of_chosen(logits, chosen, places, lse, is_sigmoid);
  float mean_share = 0, mean_dweight = 0, mean = 0;
  for (int64_t e = 0; e < num_experts; ++e) mean_share += share[e] * score(logits[e], lse, is_sigmoid) / all;
  for (int64_t k = 0; k < places; ++k)
    mean_dweight += dweights[k] * score(logits[chosen[k]], lse, is_sigmoid) / of_chosen;
  // First the gradients of the scores.
  for (int64_t e = 0; e < num_experts; ++e)
    dlogits[e] = is_sigmoid ? aux * (share[e] - mean_share) / all : aux * share[e];
  for (int64_t k = 0; k < places; ++k)
    dlogits[chosen[k]] +=
        options.scale * (options.renormalize ? (dweights[k] - mean_dweight) / of_chosen : dweights[k]);
  for (int64_t e = 0; e < num_experts; ++e) mean += dlogits[e] * expf(logits[e] - lse);
  for (int64_t e = 0; e < num_experts; ++e) {
    const float s = score(logits[e], lse, is_sigmoid);
    const float of_score = is_sigmoid ? dlogits[e] * s * (1 - s) : s * (dlogits[e] - mean);
    dlogits[e] = of_score + loss_scale * options.z_loss * 2 * lse * expf(logits[e] - lse);
  }
}

}  // namespace

Error router_forward(Stream stream, int32_t* experts, float* weights, float* lse, double* sums,
                     double* partials, const float* logits, const float* bias, int64_t tokens,
                     int64_t num_experts, int64_t chosen, const RouterOptions& options) {
  const int64_t blocks = num_blocks(tokens, kBlockTokens), width = num_experts + 1;
  const bool is_sigmoid = options.score == RouterScore::sigmoid;
  if (Error error = launch(stream, choose, blocks_of(tokens), kThreads, experts, weights, lse, logits, bias,
                           tokens, num_experts, chosen, options))
    return error;
  if (Error error = launch(stream, sum_partials, blocks_of(blocks * width), kThreads, partials, logits, lse,
                           tokens, num_experts, is_sigmoid, blocks * width))
    return error;
  return launch(stream, add_in_order, blocks_of(width), kThreads, sums, partials, blocks, width);
}

Error router_backward(Stream stream, float* dlogits, const float* dweights, const float* logits,
                      const int32_t* experts, const float* lse, const float* share, int64_t tokens,
                      int64_t num_experts, int64_t chosen, const RouterOptions& options, float loss_scale) {
  return launch(stream, backward, blocks_of(tokens), kThreads, dlogits, dweights, logits, experts, lse, share,
                tokens, num_experts, chosen, options, loss_scale);
}

}  // namespace athanor::kernels::cuda
