// What one thread does in attention, as in rows.h: the formulas are in kernels/attention.h.
//
// The backward pass goes through pairs of a block of queries and a block of keys. Each adds to f32 sums of
// dq, dk and dv, which lie in places of sum_floats() floats for each block and head; what is in them is a
// matter of the functions of one AttentionRows. Always in the same order: a block of keys gets the shares of
// queries from the first that see it to the last, a block of queries those of keys from its own to the first.
#pragma once

#include <cstdint>

namespace athanor {

// One (batch, head): rows of q and o are q_stride elements apart, those of k and v kv_stride. Query t sees
// the keys first_key(t) ... end_key(t) - 1: up to t + offset, which is keys - queries, or keys where all are
// seen; from first_keys[t] on, which rises with t and may be `keys`.
struct AttentionProblem {
  int64_t queries, keys, head_dim, q_stride, kv_stride;
  float scale;
  int64_t offset = 0;
  const int32_t* first_keys = nullptr;  // [queries], or null: from 0 on

  int64_t first_key(int64_t t) const { return first_keys == nullptr ? 0 : first_keys[t]; }
  int64_t end_key(int64_t t) const { return t + 1 + offset < keys ? t + 1 + offset : keys; }
};

constexpr int64_t kAttentionBlock = 256;

// Operands of one (batch, head), from position 0 on; but the sums are those of one block each.
struct AttentionGradients {
  void *dq, *dk, *dv;
  const void *d_o, *q, *k, *v;
  const float *lse, *delta;
  float *dq_sums, *dk_sums, *dv_sums;
};

// What the keys of one block give to the queries of another (or the same), and those to them. Indices of
// blocks. The first pair of a block of queries starts its sums, the last one ends in dq; likewise for keys.
//
// Who runs pair after pair with the same scratch says what is still in it: the query block of the pair before, and
// the key blocks of earlier pairs, each in its slot. Rows that repack nothing read those (a hint: others ignore it).
struct AttentionPair {
  int64_t query = 0, key = 0;
  bool starts_dq = false, ends_dq = false, starts_dkv = false, ends_dkv = false;
  bool has_query = false, has_key = false;
  int64_t key_slot = 0;
};

struct AttentionRows {
  // Queries [q_first, q_first + q_count).
  void (*forward)(void* o, float* lse, const void* q, const void* k, const void* v,
                  const AttentionProblem& problem, int64_t q_first, int64_t q_count, float* scratch);
  int64_t (*forward_floats)(int64_t head_dim, int64_t q_count);  // of scratch
  // For one position: delta[h * stride] = sum over D of d_o * o.
  void (*delta)(float* delta, int64_t stride, const void* d_o, const void* o, int64_t heads,
                int64_t head_dim);
  void (*backward)(const AttentionGradients& gradients, const AttentionProblem& problem,
                   const AttentionPair& pair, float* scratch);
  // dk and dv of one block of keys from the sums of the `group` heads that share them, `stride` floats apart,
  // in order.
  void (*combine)(const AttentionGradients& gradients, const AttentionProblem& problem, int64_t key,
                  int64_t group, int64_t stride);
  int64_t (*backward_floats)(int64_t head_dim, int64_t key_slots);  // of scratch
  int64_t (*sum_floats)(int64_t head_dim);
};

}  // namespace athanor
