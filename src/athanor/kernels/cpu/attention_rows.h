// Row functions of attention: what one thread does, as in rows.h. Formulas: kernels/attention.h.
//
// The backward pass visits pairs of a block of queries and a block of keys. Each pair adds to f32 sums of dq, dk and
// dv. Every block of every head has a buffer of sum_floats() floats for its sums, in a layout private to one
// AttentionRows. The order of additions is fixed: a block of keys adds up its blocks of queries in ascending order; a
// block of queries adds up its blocks of keys in descending order.
#pragma once

#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::masks {
class AttentionMask;
}
namespace athanor::kernels {

// What changes the scores of one (batch, head): kernels/attention_scores.h. Functions: attention_terms.h.
struct AttentionTerms {
  float softcap = 0;                   // 0: none
  const float* bias = nullptr;         // [buckets]; null: none
  const int32_t* bucket_of = nullptr;  // [2 reach + 1], of distance d at d + reach; null: bucket d + reach
  int64_t reach = 0;
  const int32_t *query_positions = nullptr, *key_positions = nullptr;  // [queries], [keys]
  float drop_rate = 0;                                                 // 0: none
  uint64_t drop_key = 0, drop_step = 0, drop_first = 0;  // element of the pair of positions (0, 0)
  int64_t drop_row = 0;                                  // elements of a query

  bool any() const { return softcap > 0 || bias != nullptr || drop_rate > 0; }
};

// One (batch, head). q and k have head_dim elements a row, o and v value_dim. Rows of q are q_stride elements apart, of k
// kv_stride; those of o and v, where their width is another, o_stride and v_stride.
// Query t sees those keys of first_key(t) ... end_key(t) - 1 that the mask shows it.
struct AttentionProblem {
  int64_t queries, keys, head_dim, q_stride, kv_stride;
  float scale;
  int64_t offset = 0;                   // causal: keys - queries; otherwise keys, which hides none
  const int32_t* first_keys = nullptr;  // [queries], never falling, 0 ... keys; null: all 0
  const int32_t* end_keys = nullptr;    // the same; null: all `keys`
  const AttentionMask* mask = nullptr;  // of these queries and keys; null: shows all
  int64_t mask_rule = 0;                // of this head
  int64_t value_dim = head_dim, o_stride = q_stride, v_stride = kv_stride;
  AttentionTerms terms = {};

  int64_t first_key(int64_t t) const { return first_keys == nullptr ? 0 : first_keys[t]; }
  int64_t end_key(int64_t t) const {
    const int64_t end = end_keys == nullptr ? keys : end_keys[t];
    return t + 1 + offset < end ? t + 1 + offset : end;
  }
  // Something beside the causal order hides keys: see attention_seen.h.
  bool hides() const { return first_keys != nullptr || end_keys != nullptr || mask != nullptr; }
};

constexpr int64_t kAttentionBlock = 256;

// Operands of one (batch, head). dq, dk, dv, d_o, q, k, v, lse and delta begin at position 0; the sums belong to one
// block.
struct AttentionGradients {
  void *dq, *dk, *dv;
  const void *d_o, *q, *k, *v;
  const float *lse, *delta;
  float *dq_sums, *dk_sums, *dv_sums;
  double* bias_sums = nullptr;  // [buckets], added to: of this head and block of keys; null: not wanted
};

// A pair of a block of queries and a block of keys, by index. The first pair of a block clears the block's sums
// (starts_...); its last pair writes dq, or dk and dv, from them (ends_...).
//
// A caller that runs several pairs with the same scratch (keeps) says what is still packed there: the query block of the
// previous pair (has_query), or this key block from an earlier pair (has_key, in buffer key_slot). A hint: an
// implementation that packs nothing ignores it.
struct AttentionPair {
  int64_t query = 0, key = 0;
  bool starts_dq = false, ends_dq = false, starts_dkv = false, ends_dkv = false;
  bool keeps = false, has_query = false, has_key = false;
  int64_t key_slot = 0;
};

struct AttentionRows {
  // Queries [q_first, q_first + q_count).
  void (*forward)(void* o, float* lse, const void* q, const void* k, const void* v,
                  const AttentionProblem& problem, int64_t q_first, int64_t q_count, float* scratch);
  // Floats of scratch and of sums; head_dim is the larger one of the two widths.
  int64_t (*forward_floats)(int64_t head_dim, int64_t q_count);
  // For one position: delta[h * stride] = sum over D of d_o * o.
  void (*delta)(float* delta, int64_t stride, const void* d_o, const void* o, int64_t heads,
                int64_t head_dim);
  void (*backward)(const AttentionGradients& gradients, const AttentionProblem& problem,
                   const AttentionPair& pair, float* scratch);
  // dk and dv of one block of keys from the sums of the `group` heads that share them, `stride` floats apart,
  // in order.
  void (*combine)(const AttentionGradients& gradients, const AttentionProblem& problem, int64_t key,
                  int64_t group, int64_t stride);
  int64_t (*backward_floats)(int64_t head_dim, int64_t key_slots);
  int64_t (*sum_floats)(int64_t head_dim);
  bool takes_terms = false;  // AttentionTerms, and a value_dim that is not head_dim
};

}  // namespace athanor::kernels
