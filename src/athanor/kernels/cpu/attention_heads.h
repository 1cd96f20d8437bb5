// What the forward and backward passes of attention share on the CPU: sizes, the problem of one head, and per-thread
// scratch for work items.
#pragma once

#include <array>
#include <atomic>

#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {

struct AttentionSizes {
  int64_t batch, heads, head_dim, value_dim, kv_heads;
  int64_t all_queries, first_query, queries;  // rows of q; first row and number of rows of the AttentionPart
  int64_t all_keys, first_key, keys;          // the same of k

  int64_t widest() const { return std::max(head_dim, value_dim); }
  // Index of a head's first element in q, in o, in k, in v, and of its first row in lse.
  int64_t query_at(int64_t b, int64_t head) const { return query_row(b, head) * head_dim; }
  int64_t output_at(int64_t b, int64_t head) const { return query_row(b, head) * value_dim; }
  int64_t key_at(int64_t b, int64_t head) const { return key_row(b, head) * head_dim; }
  int64_t value_at(int64_t b, int64_t head) const { return key_row(b, head) * value_dim; }
  int64_t row_at(int64_t b, int64_t head) const { return (b * heads + head) * all_queries + first_query; }

 private:
  int64_t query_row(int64_t b, int64_t head) const { return (b * all_queries + first_query) * heads + head; }
  int64_t key_row(int64_t b, int64_t head) const {
    return (b * all_keys + first_key) * kv_heads + head / (heads / kv_heads);
  }
};

// The number of rows of a range that begins at `first` of `all` rows: `rows`, or all that follow if `rows` is negative.
// Error, naming kernel and tensor, if the range does not fit.
int64_t rows_of_part(const char* kernel, const char* name, int64_t first, int64_t rows, int64_t all);

// Checks the contract of q, k, v and the part (Error by name) and returns the sizes.
AttentionSizes check_attention(const char* kernel, const Tensor& q, const Tensor& k, const Tensor& v,
                               const AttentionPart& part);

// FLOPs of matrix products of head_dim and of value_dim over the (query, key) pairs that the mask shows, or else the
// causal order. Intervals are not taken into account.
double attention_flops(const AttentionSizes& s, const AttentionPart& part, int64_t products,
                       int64_t value_products);

// The row functions that have `function` and take what the call asks for beside q, k, v and a mask.
template <typename Function>
const AttentionRows& attention_rows(const Queue& queue, RowType type, Function AttentionRows::*function,
                                    const AttentionSizes& s, const AttentionPart& part) {
  const bool plain = part.scores == nullptr && s.value_dim == s.head_dim;
  for (const RowTable* table : row_tables(queue.isa()))
    if (const AttentionRows& rows = table->attention[type];
        rows.*function != nullptr && (plain || rows.takes_terms))
      return rows;
  return ref_rows.attention[type];
}

// The AttentionTerms of each sequence of the batch and each head, checked (attention_terms.cpp).
class HeadTerms {
 public:
  HeadTerms() = default;
  HeadTerms(const char* kernel, const Queue& queue, const AttentionSizes& s, const AttentionPart& part,
            Arena& arena);
  AttentionTerms of(int64_t batch, int64_t head) const;

 private:
  AttentionTerms all_;
  Tensor positions_;  // [queries + keys] i32
  int64_t buckets_ = 0, pairs_ = 0;
  AttentionDropout dropout_;
};

// Sums for d_bias: of each head and block of keys, f64 (attention_terms.cpp).
class BiasSums {
 public:
  BiasSums(const Queue& queue, const AttentionSizes& s, const AttentionPart& part, int64_t key_blocks,
           Arena& arena);
  double* of(int64_t head, int64_t key_block) const;  // head: batch * H + head; null: not wanted
  void add(const Queue& queue) const;                 // to d_bias
 private:
  Tensor* d_bias_ = nullptr;
  Tensor sums_;
  int64_t batch_ = 0, heads_ = 0, blocks_ = 0, buckets_ = 0;
};

// The AttentionProblem of each sequence of the batch and each head.
class AttentionProblems {
 public:
  // Workspace for the intervals and the positions comes from q's arena.
  AttentionProblems(const char* kernel, const Queue& queue, const AttentionSizes& s,
                    const AttentionPart& part, const Tensor& q, float scale);
  AttentionProblem of(int64_t batch, int64_t head) const {
    AttentionProblem problem = all_;
    if (first_keys_.defined()) problem.first_keys = first_keys_.data<int32_t>() + batch * all_.queries;
    if (end_keys_.defined()) problem.end_keys = end_keys_.data<int32_t>() + batch * all_.queries;
    if (all_.mask != nullptr) problem.mask_rule = all_.mask->rule_of(head);
    if (scores_ != nullptr) problem.terms = terms_.of(batch, head);
    return problem;
  }

 private:
  AttentionProblem all_;
  Tensor first_keys_, end_keys_;
  const AttentionScores* scores_;
  HeadTerms terms_;
};

// Number of scratch buffers (lanes). A constant, so that the memory plan does not depend on the number of threads.
constexpr int64_t kAttentionLanes = 32;
// Work items that keep many threads busy. More items would need more memory (backward) or more packing (forward).
constexpr int64_t kEnoughItems = 32;

// Runs work items in parallel, at most kAttentionLanes at a time. run() calls body(item, scratch) for every item; no
// two running items have the same scratch.
class AttentionLanes {
 public:
  AttentionLanes(Queue& queue, Arena& arena, int64_t most_items, int64_t floats,
                 int64_t most_lanes = kAttentionLanes)
      : queue_(queue),
        lanes_(std::min(most_items, most_lanes)),
        floats_(num_blocks(floats, 16) * 16),  // whole cache lines
        scratch_(empty(arena, {lanes_, floats_}, Dtype::f32, Category::workspace)) {}

  template <typename Body>
  void run(int64_t items, const Body& body) {
    // Each thread begins with an equal run of items (it likely wrote their rows), then takes items of the other runs.
    const int64_t lanes = std::min({items, lanes_, static_cast<int64_t>(queue_.num_threads())});
    std::array<std::atomic<int64_t>, kAttentionLanes> next;
    for (int64_t lane = 0; lane < lanes; ++lane) next[static_cast<size_t>(lane)] = items * lane / lanes;
    queue_.parallel_for(lanes, [&](int64_t lane) {
      float* scratch = scratch_.data<float>() + lane * floats_;
      for (int64_t i = 0; i < lanes; ++i) {
        const int64_t share = (lane + i) % lanes, end = items * (share + 1) / lanes;
        auto& first = next[static_cast<size_t>(share)];
        for (int64_t item = first++; item < end; item = first++) body(item, scratch);
      }
    });
  }

 private:
  Queue& queue_;
  int64_t lanes_, floats_;
  Tensor scratch_;
};

// delta [B,H,T] = sum over E of d_o * o, of all queries.
Tensor output_products(Queue& queue, const Tensor& d_o, const Tensor& o);

// AttentionKernels::backward (attention_backward.cpp).
void attention_backward(Queue& queue, Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& d_o, const Tensor& o,
                        const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v, float scale,
                        const AttentionPart& part);

}  // namespace athanor::kernels
