// What the forward and backward passes of attention share on the CPU: sizes, the problem of one head, and per-thread
// scratch for work items.
#pragma once

#include <array>
#include <atomic>

#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {

struct AttentionSizes {
  int64_t batch, heads, head_dim, kv_heads;
  int64_t all_queries, first_query, queries;  // rows of q; first row and number of rows of the AttentionPart
  int64_t all_keys, first_key, keys;          // the same of k

  // Index of a head's first element in q, in k, and of its first row in lse.
  int64_t query_at(int64_t b, int64_t head) const {
    return ((b * all_queries + first_query) * heads + head) * head_dim;
  }
  int64_t key_at(int64_t b, int64_t head) const {
    return ((b * all_keys + first_key) * kv_heads + head / (heads / kv_heads)) * head_dim;
  }
  int64_t row_at(int64_t b, int64_t head) const { return (b * heads + head) * all_queries + first_query; }
};

// The number of rows of a range that begins at `first` of `all` rows: `rows`, or all that follow if `rows` is negative.
// Error, naming kernel and tensor, if the range does not fit.
int64_t rows_of_part(const char* kernel, const char* name, int64_t first, int64_t rows, int64_t all);

// Checks the contract of q, k, v and the part (Error by name) and returns the sizes.
AttentionSizes check_attention(const char* kernel, const Tensor& q, const Tensor& k, const Tensor& v,
                               const AttentionPart& part);

// FLOPs of `products` matrix products over the (query, key) pairs that the mask shows, or else the causal order. Intervals
// are not taken into account.
double attention_flops(const AttentionSizes& s, const AttentionPart& part, double products);

// The AttentionProblem of each sequence of the batch and each head.
class AttentionProblems {
 public:
  // Workspace for the intervals comes from q's arena.
  AttentionProblems(const char* kernel, const Queue& queue, const AttentionSizes& s,
                    const AttentionPart& part, const Tensor& q, float scale);
  AttentionProblem of(int64_t batch, int64_t head) const {
    AttentionProblem problem = all_;
    if (first_keys_.defined()) problem.first_keys = first_keys_.data<int32_t>() + batch * all_.queries;
    if (end_keys_.defined()) problem.end_keys = end_keys_.data<int32_t>() + batch * all_.queries;
    if (all_.mask != nullptr) problem.mask_rule = all_.mask->rule_of(head);
    return problem;
  }

 private:
  AttentionProblem all_;
  Tensor first_keys_, end_keys_;
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

// AttentionKernels::backward (attention_backward.cpp).
void attention_backward(Queue& queue, Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& d_o, const Tensor& o,
                        const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v, float scale,
                        const AttentionPart& part);

}  // namespace athanor::kernels
