#include "athanor/nn/attention.h"

namespace athanor::nn {
namespace {

// Appends the rows of x [1,S,K,D] to rows [length, length + S) of the cache and returns all rows as
// [1,S',K,D].
Tensor append(Tensor& cache, int64_t length, const Tensor& x) {
  const int64_t added = x.dim(1), total = length + added;
  check(total <= cache.dim(0), "kv cache: {} positions do not fit, it holds {}", total, cache.dim(0));
  Tensor rows = cache.slice(length, total);
  copy(rows, x);
  return cache.slice(0, total).view({1, total, x.dim(2), x.dim(3)});
}

}  // namespace

SelfAttention::SelfAttention(Module* parent, const std::string& name, const AttentionOptions& options)
    : Module(parent, name),
      options_(options),
      q_(this, "q", options.width, options.heads * options.head_dim, options.bias, options.init_std),
      k_(this, "k", options.width, options.kv_heads * options.head_dim, options.bias, options.init_std),
      v_(this, "v", options.width, options.kv_heads * options.head_dim, options.bias, options.init_std),
      o_(this, "o", options.heads * options.head_dim, options.width, options.bias, options.output_init_std) {}

Var SelfAttention::operator()(const Var& input, const RopeTable* rope_table, KvCache* cache) const {
  const Var x = enter(input);
  const int64_t batch = x.value.dim(0), length = x.value.dim(1), head_dim = options_.head_dim;
  // The number of heads follows from the projections: with tensor parallelism these are the heads of this rank.
  const auto by_heads = [&](const Var& y) {
    return view(y, {batch, length, y.value.dim(-1) / head_dim, head_dim});
  };
  const int64_t first = cache == nullptr ? 0 : cache->length;
  const auto placed = [&](const Linear& layer) {
    return rope_table == nullptr ? by_heads(layer(x)) : layer.rotated(x, head_dim, *rope_table, first);
  };
  Var q = placed(q_), k = placed(k_), v = by_heads(v_(x));
  if (cache != nullptr) {
    check(batch == 1 && !x.tape->recording(), "kv cache: one sequence at a time, without gradients");
    k.value = append(cache->k, first, k.value);
    v.value = append(cache->v, first, v.value);
    cache->length += length;
  }
  const HeadMasks masks{options_.mask, q_.weight().param().box().offset[0] / head_dim, options_.causal};
  return view(attention(q, k, v, masks), {batch, length, q.value.dim(2) * head_dim});
}

}  // namespace athanor::nn
