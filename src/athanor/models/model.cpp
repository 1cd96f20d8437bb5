#include "athanor/models/model.h"

#include <algorithm>
#include <cmath>

#include "athanor/autograd/recompute.h"
#include "athanor/kernels/table.h"
#include "athanor/models/gpt2/gpt2.h"
#include "athanor/models/llama/llama.h"

namespace athanor {

void Model::allocate(Arena& arena, Dtype dtype, bool with_master) {
  for (const auto& param : params()) param->allocate(arena, dtype, with_master);
  if (uses_rope()) rope_ = make_rope_table(arena, config_.max_seq_len, config_.head_dim, config_.rope_base);
}

void Model::initialize(uint64_t seed) {
  for (const auto& param : params()) param->initialize(seed);
}

Var Model::blocks(int64_t first, int64_t last, Var x) const {
  for (int64_t i = first; i < last; ++i) x = block(i, x, nullptr);
  return x;
}

Var Model::hidden(Tape& tape, const Tensor& ids, const RecomputePlan& plan,
                  std::vector<KvCache>* caches) const {
  const int64_t start = caches == nullptr ? 0 : caches->front().length;
  check(start + ids.dim(1) <= config_.max_seq_len, "model: got position {}, expected below max_seq_len {}",
        start + ids.dim(1) - 1, config_.max_seq_len);
  Var x = embed(tape, ids, start);
  int64_t i = 0;
  for (const RecomputePart& part : tape.recording() ? plan : RecomputePlan{}) {
    const int64_t end = part.blocks == 0 ? config_.layers : std::min(config_.layers, i + part.blocks);
    for (int64_t last = 0; i < end; i = last) {
      last = part.policy == Recompute::full ? std::min(end, i + part.group) : i + 1;
      if (part.policy == Recompute::full) {
        x = recompute(x, [this, i, last](const Var& input) { return blocks(i, last, input); });
        continue;
      }
      if (part.policy == Recompute::selective) tape.begin_redo();
      x = blocks(i, last, x);
      if (part.policy == Recompute::selective) tape.end_redo(x);
    }
  }
  for (; i < config_.layers; ++i)
    x = block(i, x, caches == nullptr ? nullptr : &(*caches)[static_cast<size_t>(i)]);
  return final_norm(x);
}

Var Model::loss(Tape& tape, const Tensor& ids, const Tensor& targets, const RecomputePlan& plan) const {
  const Var x = child("head").enter(hidden(tape, ids, plan));
  return linear_cross_entropy(x, head(), targets, config_.vocab_size, combine_statistics_);
}

Tensor Model::next_logits(Tape& tape, const Tensor& ids, std::vector<KvCache>& caches) const {
  check(ids.dim(0) == 1 && ids.dim(1) > 0, "model: got ids {}, expected one sequence", ids.shape());
  check(!combine_statistics_, "model: logits of a model that is cut over ranks lie on all of them");
  const Tensor x = hidden(tape, ids, {}, &caches).value;
  const Tensor last = x.view({x.dim(1), x.dim(2)}).slice(x.dim(1) - 1, x.dim(1));
  const Tensor& weight = head().value();
  Tensor logits = empty(x.arena(), {1, weight.dim(0)}, Dtype::f32, Category::activations);
  kernels(x).gemm.nt(x.queue(), logits, last, weight, nullptr);
  return logits;
}

std::vector<KvCache> Model::make_caches(int64_t capacity) const {
  const Tensor& like = head().value();
  std::vector<KvCache> caches(static_cast<size_t>(config_.layers));
  const Shape shape{capacity, config_.kv_heads, config_.head_dim};
  for (KvCache& cache : caches) {
    cache.k = empty(like.arena(), shape, like.dtype(), Category::activations);
    cache.v = empty(like.arena(), shape, like.dtype(), Category::activations);
  }
  return caches;
}

int64_t Model::num_params() const {
  int64_t sum = 0;
  for (const auto& param : params()) sum += param->whole_shape().numel();
  return sum;
}

double Model::flops_per_token(int64_t seq_len) const {
  // Lookups are no products: of the uses of a matrix, those of the embeddings do not count.
  int64_t in_products = head().param().whole_shape().numel();
  for (const auto& param : params())
    if (param->is_matrix() && param->name().rfind("blocks.", 0) == 0) in_products += param->whole_shape().numel();
  return 6.0 * static_cast<double>(in_products) +
         6.0 * static_cast<double>(config_.layers * seq_len * config_.heads * config_.head_dim);
}

double residual_init_std(const ModelConfig& config) {
  return config.init_std / std::sqrt(2.0 * static_cast<double>(config.layers));
}

std::unique_ptr<Model> make_model(const ModelConfig& config) {
  if (config.family == "llama") return std::make_unique<Llama>(config);
  if (config.family == "gpt2") return std::make_unique<Gpt2>(config);
  fail("model: got family '{}', expected llama or gpt2", config.family);
}

}  // namespace athanor
