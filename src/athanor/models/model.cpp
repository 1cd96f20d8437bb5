#include "athanor/models/model.h"

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

Var Model::hidden(Tape& tape, const Tensor& ids, Recompute policy, std::vector<KvCache>* caches) const {
  const int64_t first = caches == nullptr ? 0 : caches->front().length;
  check(first + ids.dim(1) <= config_.max_seq_len, "model: got position {}, expected below max_seq_len {}",
        first + ids.dim(1) - 1, config_.max_seq_len);
  Var x = embed(tape, ids, first);
  for (int64_t i = 0; i < config_.layers; ++i) {
    if (policy == Recompute::full) {
      x = recompute(x, [this, i](const Var& input) { return block(i, input, nullptr); });
    } else {
      x = block(i, x, caches == nullptr ? nullptr : &(*caches)[static_cast<size_t>(i)]);
    }
  }
  return final_norm(x);
}

Var Model::loss(Tape& tape, const Tensor& ids, const Tensor& targets, Recompute policy) const {
  return linear_cross_entropy(hidden(tape, ids, policy), head(), targets, config_.vocab_size);
}

Tensor Model::next_logits(Tape& tape, const Tensor& ids, std::vector<KvCache>& caches) const {
  check(ids.dim(0) == 1 && ids.dim(1) > 0, "model: got ids {}, expected one sequence", ids.shape());
  const Tensor x = hidden(tape, ids, Recompute::none, &caches).value;
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
  for (const auto& param : params()) sum += param->numel();
  return sum;
}

double Model::flops_per_token(int64_t seq_len) const {
  // Lookups are no products: of the uses of a matrix, those of the embeddings do not count.
  int64_t in_products = head().param().numel();
  for (const auto& param : params())
    if (param->is_matrix() && param->name().rfind("blocks.", 0) == 0) in_products += param->numel();
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
