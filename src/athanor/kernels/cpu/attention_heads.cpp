#include "athanor/kernels/cpu/attention_heads.h"

namespace athanor::kernels {

int64_t rows_of_part(const char* kernel, const char* name, int64_t first, int64_t rows, int64_t all) {
  const int64_t count = rows < 0 ? all - first : rows;
  check(first >= 0 && count >= 0 && count <= all - first, "{}: got {} {} from {} on, expected them within {}",
        kernel, count, name, first, all);
  return count;
}

namespace {

void check_mask(const char* kernel, const AttentionMask& mask, const AttentionSizes& s) {
  check(mask.queries() == s.queries && mask.keys() == s.keys && mask.heads() == s.heads,
        "{}: got a mask of {} queries, {} keys and {} heads, expected {}, {} and {}", kernel, mask.queries(),
        mask.keys(), mask.heads(), s.queries, s.keys, s.heads);
  const int64_t group = s.heads / s.kv_heads;
  for (int64_t head = 0; head < s.heads; ++head)
    check(mask.rule_of(head) == mask.rule_of(head / group * group),
          "{}: got different masks of heads {} and {}, which share their keys", kernel, head / group * group,
          head);
}

}  // namespace

AttentionSizes check_attention(const char* kernel, const Tensor& q, const Tensor& k, const Tensor& v,
                               const AttentionPart& part) {
  check(q.shape().dims() == 4 && q.dim(3) > 0, "{}: q is {}, expected [B,T,H,D] with D > 0", kernel,
        q.shape());
  check(k.defined() && k.shape().dims() == 4, "{}: k is {}, expected [B,S,K,D]", kernel, k.shape());
  const AttentionSizes s{.batch = q.dim(0),
                         .heads = q.dim(2),
                         .head_dim = q.dim(3),
                         .value_dim = v.defined() && v.shape().dims() == 4 ? v.dim(3) : 0,
                         .kv_heads = k.dim(2),
                         .all_queries = q.dim(1),
                         .first_query = part.first_query,
                         .queries = rows_of_part(kernel, "queries", part.first_query, part.queries, q.dim(1)),
                         .all_keys = k.dim(1),
                         .first_key = part.first_key,
                         .keys = rows_of_part(kernel, "keys", part.first_key, part.keys, k.dim(1))};
  check(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "{}: got {} heads of q and {} of k, expected a multiple",
        kernel, s.heads, s.kv_heads);
  check(!part.causal || s.keys >= s.queries, "{}: got {} queries and {} keys, expected at least as many keys",
        kernel, s.queries, s.keys);
  check(part.causal || s.keys > 0, "{}: got no keys, expected some", kernel);
  expect(kernel, "k", k, {s.batch, s.all_keys, s.kv_heads, s.head_dim}, q.dtype());
  expect(kernel, "v", v, {s.batch, s.all_keys, s.kv_heads, s.value_dim}, q.dtype());
  check(s.value_dim > 0, "{}: v is {}, expected [B,S,K,E] with E > 0", kernel, v.shape());
  for (const auto& [name, ends] : {std::pair{"first_keys", part.first_keys}, {"end_keys", part.end_keys}})
    if (ends != nullptr) expect(kernel, name, *ends, {s.batch, s.all_queries}, Dtype::i32);
  if (part.mask != nullptr) check_mask(kernel, *part.mask, s);
  return s;
}

double attention_flops(const AttentionSizes& s, const AttentionPart& part, int64_t products,
                       int64_t value_products) {
  const int64_t twice = part.causal ? 2 * s.keys - s.queries + 1 : 2 * s.keys;
  const double pairs = part.mask != nullptr
                           ? static_cast<double>(part.mask->pairs_of_all_heads())
                           : static_cast<double>(s.heads * s.queries) * (static_cast<double>(twice) / 2);
  return 2 * pairs * static_cast<double>(s.batch * (products * s.head_dim + value_products * s.value_dim));
}

AttentionProblems::AttentionProblems(const char* kernel, const Queue& queue, const AttentionSizes& s,
                                     const AttentionPart& part, const Tensor& q, float scale)
    : all_{.queries = s.queries,
           .keys = s.keys,
           .head_dim = s.head_dim,
           .q_stride = s.heads * s.head_dim,
           .kv_stride = s.kv_heads * s.head_dim,
           .scale = scale,
           .offset = part.causal ? s.keys - s.queries : s.keys,
           .mask = part.mask,
           .value_dim = s.value_dim,
           .o_stride = s.heads * s.value_dim,
           .v_stride = s.kv_heads * s.value_dim},
      scores_(part.scores) {
  if (scores_ != nullptr) terms_ = HeadTerms(kernel, queue, s, part, q.arena());
  // As rows of the part's own keys.
  const auto of_part = [&](const char* name, const Tensor* ends) {
    if (ends == nullptr) return Tensor{};
    Tensor rows = empty(q.arena(), {s.batch, s.queries}, Dtype::i32, Category::workspace);
    if (!on_cpu(queue)) return rows;
    for (int64_t b = 0; b < s.batch; ++b) {
      const int32_t* from = ends->data<int32_t>() + b * s.all_queries + s.first_query;
      int32_t* to = rows.data<int32_t>() + b * s.queries;
      for (int64_t t = 0; t < s.queries; ++t) {
        check(from[t] >= (t == 0 ? 0 : from[t - 1]), "{}: {} of sequence {} fall at query {} to {}", kernel,
              name, b, t, from[t]);
        to[t] = static_cast<int32_t>(std::clamp<int64_t>(from[t] - s.first_key, 0, s.keys));
      }
    }
    return rows;
  };
  first_keys_ = of_part("first_keys", part.first_keys);
  end_keys_ = of_part("end_keys", part.end_keys);
}

}  // namespace athanor::kernels
