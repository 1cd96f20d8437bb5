#include "athanor/nn/attention.h"

#include <cstring>

namespace athanor {
namespace {

// Appends the rows of x [1,S,K,D] to rows [length, length + S) of the cache and returns all rows as
// [1,S',K,D].
Tensor append(Tensor& cache, int64_t length, const Tensor& x) {
  const int64_t added = x.dim(1), total = length + added;
  check(total <= cache.dim(0), "kv cache: {} positions do not fit, it holds {}", total, cache.dim(0));
  Tensor rows = cache.slice(length, total);
  copy_from_host(rows, x.raw(), x.size_bytes());
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
  // As many heads as the projections have: of a model that is cut by heads, those of this rank.
  const auto by_heads = [&](const Var& y) {
    return view(y, {batch, length, y.value.dim(-1) / head_dim, head_dim});
  };
  const int64_t first = cache == nullptr ? 0 : cache->length;
  Var q = by_heads(q_(x)), k = by_heads(k_(x)), v = by_heads(v_(x));
  if (rope_table != nullptr) {
    q = rope(q, rope_table->cos, rope_table->sin, first);
    k = rope(k, rope_table->cos, rope_table->sin, first);
  }
  if (cache != nullptr) {
    check(batch == 1 && !x.tape->recording(), "kv cache: one sequence at a time, without gradients");
    k.value = append(cache->k, first, k.value);
    v.value = append(cache->v, first, v.value);
    cache->length += length;
  }
  return view(attention(q, k, v), {batch, length, q.value.dim(2) * head_dim});
}

}  // namespace athanor
