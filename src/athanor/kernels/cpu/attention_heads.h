// What the passes of attention share: their shapes, what each head works on, and scratch for items that threads take.
#pragma once

#include <array>
#include <atomic>

#include "athanor/kernels/cpu/cpu.h"

namespace athanor {

struct AttentionSizes {
  int64_t batch, heads, head_dim, kv_heads;
  int64_t all_queries, first_query, queries;  // of the tensors, of the part
  int64_t all_keys, first_key, keys;

  // The places of the first element of a head's part, and of its statistics.
  int64_t query_at(int64_t b, int64_t head) const {
    return ((b * all_queries + first_query) * heads + head) * head_dim;
  }
  int64_t key_at(int64_t b, int64_t head) const {
    return ((b * all_keys + first_key) * kv_heads + head / (heads / kv_heads)) * head_dim;
  }
  int64_t row_at(int64_t b, int64_t head) const { return (b * heads + head) * all_queries + first_query; }
};

// Of `all` rows those of a part, from `first` on: `rows`, or if that is negative all others. Error by name.
int64_t rows_of_part(const char* kernel, const char* name, int64_t first, int64_t rows, int64_t all);

// The contract of q, k, v and the part; Error by name.
AttentionSizes check_attention(const char* kernel, const Tensor& q, const Tensor& k, const Tensor& v,
                               const AttentionPart& part);

// Of `products` products of queries and keys, of those pairs that see each other (but for what first_keys hides).
double attention_flops(const AttentionSizes& s, const AttentionPart& part, double products);

// What the heads of one sequence work on.
class AttentionProblems {
 public:
  // Workspace for first_keys comes from q's arena.
  AttentionProblems(const char* kernel, const Queue& queue, const AttentionSizes& s,
                    const AttentionPart& part, const Tensor& q, float scale);
  AttentionProblem of(int64_t batch) const {
    AttentionProblem problem = all_;
    if (first_keys_.defined()) problem.first_keys = first_keys_.data<int32_t>() + batch * all_.queries;
    return problem;
  }

 private:
  AttentionProblem all_;
  Tensor first_keys_;
};

// Scratch is held for this many lanes, each of which takes items as long as there are some: a constant, so
// that the memory plan does not depend on the number of threads.
constexpr int64_t kAttentionLanes = 32;
// Items that keep many threads busy: more of them would need more memory (backward) or more packing
// (forward).
constexpr int64_t kEnoughItems = 32;

// Scratch of kAttentionLanes lanes. run() calls body(item, scratch) for every item, with scratch that no other running
// item has.
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
    // Each thread begins with an equal run of items, those whose rows it likely wrote, and then helps the others.
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

}  // namespace athanor
