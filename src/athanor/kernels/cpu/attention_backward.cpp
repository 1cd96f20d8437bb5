#include <cstring>

#include "athanor/kernels/cpu/attention_heads.h"

namespace athanor::kernels {
namespace {

// The number of blocks of a head whose sums and packed keys fit in a second-level cache.
constexpr int64_t kBlocksNearby = 8;
// backward_by_heads() uses fewer scratch buffers, because each is larger.
constexpr int64_t kHeadLanes = 16, kFewestHeads = 8;

// Which blocks of keys the queries of a block see, and by which blocks of queries a block of keys is seen: those of a
// contiguous run, because both ends of what a query sees rise with the query, that the mask shows.
class BlockPairs {
 public:
  struct Run {
    int64_t first, last;  // none if first > last
  };
  explicit BlockPairs(const AttentionProblem& problem) : problem_(problem) {}
  bool has(int64_t query, int64_t key) const {
    const Run keys = interval_of(query);
    return keys.first <= key && key <= keys.last && shows(query, key);
  }
  int64_t query_blocks() const { return num_blocks(problem_.queries, kAttentionBlock); }
  int64_t key_blocks() const { return num_blocks(problem_.keys, kAttentionBlock); }

  // From the first block to the last one; not all between need be seen.
  Run keys_of(int64_t query) const {
    Run run = interval_of(query);
    while (run.first <= run.last && !shows(query, run.first)) ++run.first;
    while (run.first <= run.last && !shows(query, run.last)) --run.last;
    return run;
  }
  Run queries_of(int64_t key) const {
    Run run{0, query_blocks() - 1};
    while (run.first <= run.last && !has(run.first, key)) ++run.first;
    while (run.first <= run.last && !has(run.last, key)) --run.last;
    return run;
  }
  bool is_seen(int64_t key) const {
    const Run queries = queries_of(key);
    return queries.first <= queries.last;
  }
  bool sees(int64_t query) const {
    const Run keys = keys_of(query);
    return keys.first <= keys.last;
  }
  AttentionPair pair(int64_t query, int64_t key, int64_t group) const {
    const Run keys = keys_of(query), queries = queries_of(key);
    return {.query = query,
            .key = key,
            .starts_dq = key == keys.last,
            .ends_dq = key == keys.first,
            .starts_dkv = query == queries.first,
            .ends_dkv = query == queries.last && group == 1};
  }

 private:
  bool shows(int64_t query, int64_t key) const {
    return problem_.mask == nullptr || problem_.mask->wide_pair(problem_.mask_rule, query, key);
  }
  Run interval_of(int64_t query) const {
    const int64_t last = std::min((query + 1) * kAttentionBlock, problem_.queries) - 1;
    const int64_t first_key = problem_.first_key(query * kAttentionBlock);
    if (first_key >= problem_.end_key(last)) return {0, -1};
    return {first_key / kAttentionBlock, (problem_.end_key(last) - 1) / kAttentionBlock};
  }

  AttentionProblem problem_;
};

// Writes zeros to rows of one head.
void clear_rows(const Tensor& x, int64_t first_element, int64_t stride, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row)
    std::memset(at(x, first_element + row * stride), 0, static_cast<size_t>(width) * size_of(x.dtype()));
}

// What lies beside the pairs of a head's part.
struct BackwardParts {
  const AttentionProblems& problems;
  const AttentionSizes& sizes;
  int64_t group, query_blocks, key_blocks;  // heads that share keys; blocks of a head
  int64_t block;                            // floats of the sums of a block
  const BiasSums& bias;
  Tensor &dq, &dk, &dv;
  int64_t heads() const { return sizes.batch * sizes.heads; }
  AttentionProblem problem_of(int64_t head) const {
    return problems.of(head / sizes.heads, head % sizes.heads);
  }
};

// Writes zeros where no pair writes: for blocks of queries that see no key, and blocks of keys that no query sees.
void clear_queries(const BackwardParts& parts, const AttentionProblem& problem, int64_t head, int64_t block) {
  const AttentionSizes& s = parts.sizes;
  const int64_t row = block * kAttentionBlock;
  clear_rows(parts.dq, s.query_at(head / s.heads, head % s.heads) + row * problem.q_stride, problem.q_stride,
             std::min(kAttentionBlock, s.queries - row), s.head_dim);
}
void clear_keys(const BackwardParts& parts, const AttentionProblem& problem, int64_t head, int64_t block) {
  const AttentionSizes& s = parts.sizes;
  const int64_t row = block * kAttentionBlock;
  const int64_t rows = std::min(kAttentionBlock, s.keys - row);
  clear_rows(parts.dk, s.key_at(head / s.heads, head % s.heads) + row * problem.kv_stride, problem.kv_stride,
             rows, s.head_dim);
  clear_rows(parts.dv, s.value_at(head / s.heads, head % s.heads) + row * problem.v_stride, problem.v_stride,
             rows, s.value_dim);
}

// By heads: one thread takes all heads that share keys, pair after pair. Packed operands and sums stay in its caches.
template <typename GradientsOf>
void backward_by_heads(Queue& queue, Arena& arena, const AttentionRows& rows, const BackwardParts& parts,
                       const GradientsOf& gradients_of) {
  const int64_t group = parts.group, block = parts.block, sums = parts.key_blocks * block;
  const int64_t items = parts.heads() / group;
  const int64_t own = num_blocks(rows.backward_floats(parts.sizes.widest(), parts.key_blocks), 16) * 16;
  AttentionLanes lanes(queue, arena, items, own + block + 2 * group * sums, kHeadLanes);
  lanes.run(items, [&](int64_t item, float* scratch) {
    float *const dq_sums = scratch + own, *const dk_sums = dq_sums + block,
                 *const dv_sums = dk_sums + group * sums;
    const AttentionProblem problem = parts.problem_of(item * group);
    const BlockPairs pairs(problem);
    AttentionGradients g{};
    for (int64_t i = 0; i < group; ++i) {
      g = gradients_of(item * group + i);
      g.dq_sums = dq_sums;
      const AttentionProblem with_terms = parts.problem_of(item * group + i);
      for (int64_t query = 0; query < parts.query_blocks; ++query) {
        const BlockPairs::Run keys = pairs.keys_of(query);
        if (keys.last < keys.first) clear_queries(parts, problem, item * group + i, query);
        for (int64_t key = keys.last; key >= keys.first; --key) {
          if (!pairs.has(query, key)) continue;
          g.dk_sums = dk_sums + i * sums + key * block;
          g.dv_sums = dv_sums + i * sums + key * block;
          g.bias_sums = parts.bias.of(item * group + i, key);
          AttentionPair pair = pairs.pair(query, key, group);
          pair.keeps = true;
          pair.has_query = !pair.starts_dq;
          pair.has_key = !pair.starts_dkv || i > 0;
          pair.key_slot = key;
          rows.backward(g, with_terms, pair, scratch);
        }
      }
    }
    for (int64_t key = 0; key < parts.key_blocks; ++key) {
      g.dk_sums = dk_sums + key * block;
      g.dv_sums = dv_sums + key * block;
      if (!pairs.is_seen(key))
        clear_keys(parts, problem, item * group, key);
      else if (group > 1)
        rows.combine(g, problem, key, group, sums);
    }
  });
}

// By diagonals: pairs that share a block must take turns in a fixed order (attention_rows.h), so a round runs in
// parallel the pairs whose query block is a certain number of blocks after their key block. Sums are allocated for some
// heads (complete groups that share keys) at a time.
template <typename GradientsOf>
void backward_by_rounds(Queue& queue, Arena& arena, const AttentionRows& rows, const BackwardParts& parts,
                        int64_t first_round, const GradientsOf& gradients_of) {
  const int64_t group = parts.group, blocks = std::max(parts.query_blocks, parts.key_blocks);
  const int64_t heads = parts.heads(), round_items = group * (blocks + 1) / 2, sums = blocks * parts.block;
  const int64_t wave = std::min(heads, group * num_blocks(kEnoughItems, round_items));
  const Tensor held = empty(arena, {3, wave, sums}, Dtype::f32, Category::workspace);
  AttentionLanes lanes(queue, arena, wave * blocks, rows.backward_floats(parts.sizes.widest(), 1));
  const auto with_sums = [&](int64_t first, int64_t slot, int64_t query, int64_t key) {
    AttentionGradients g = gradients_of(first + slot);
    float* const dq_sums = held.data<float>() + slot * sums;
    g.dq_sums = dq_sums + query * parts.block;
    g.dk_sums = dq_sums + wave * sums + key * parts.block;
    g.dv_sums = dq_sums + 2 * wave * sums + key * parts.block;
    g.bias_sums = parts.bias.of(first + slot, key);
    return g;
  };
  for (int64_t first = 0; first < heads; first += wave) {
    const int64_t count = std::min(wave, heads - first);
    for (int64_t round = first_round; round < parts.query_blocks; ++round) {
      const int64_t first_key = std::max<int64_t>(0, -round);
      const int64_t end_key = std::min(parts.key_blocks, parts.query_blocks - round);
      lanes.run((end_key - first_key) * count, [&](int64_t item, float* scratch) {
        const int64_t key = first_key + item / count, query = key + round, slot = item % count;
        const AttentionProblem problem = parts.problem_of(first + slot);
        const BlockPairs pairs(problem);
        if (!pairs.has(query, key)) return;
        rows.backward(with_sums(first, slot, query, key), problem, pairs.pair(query, key, group), scratch);
      });
    }
    queue.parallel_for(blocks * count / group, [&](int64_t item) {
      const int64_t slot = item / blocks * group, index = item % blocks;
      const AttentionProblem problem = parts.problem_of(first + slot);
      const BlockPairs pairs(problem);
      for (int64_t i = 0; index < parts.query_blocks && i < group; ++i)
        if (!pairs.sees(index)) clear_queries(parts, problem, first + slot + i, index);
      if (index >= parts.key_blocks) return;
      if (!pairs.is_seen(index))
        clear_keys(parts, problem, first + slot, index);
      else if (group > 1)
        rows.combine(with_sums(first, slot, 0, index), problem, index, group, sums);
    });
  }
}

}  // namespace

Tensor output_products(Queue& queue, const Tensor& d_o, const Tensor& o) {
  const auto row_delta =
      choose(queue, &RowTable::attention, row_type("attention.backward", o), &AttentionRows::delta).delta;
  const int64_t batch = o.dim(0), length = o.dim(1), heads = o.dim(2), width = heads * o.dim(3);
  Tensor delta = empty(o.arena(), {batch, heads, length}, Dtype::f32, Category::workspace);
  for_blocks(queue, batch * length, rows_per_block(width), [&](int64_t first, int64_t count) {
    for (int64_t row = first; row < first + count; ++row)
      row_delta(delta.data<float>() + row / length * heads * length + row % length, length,
                at(d_o, row * width), at(o, row * width), heads, o.dim(3));
  });
  return delta;
}

void attention_backward(Queue& queue, Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& d_o, const Tensor& o,
                        const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v, float scale,
                        const AttentionPart& part) {
  const char* kernel = "attention.backward";
  const AttentionSizes s = check_attention(kernel, q, k, v, part);
  const AttentionRows& rows = attention_rows(queue, row_type(kernel, q), &AttentionRows::backward, s, part);
  check(!part.causal || s.keys == s.queries, "{}: got {} queries and {} keys, expected as many", kernel,
        s.queries, s.keys);
  expect(kernel, "dq", dq, q.shape(), q.dtype());
  expect(kernel, "dk", dk, k.shape(), q.dtype());
  expect(kernel, "dv", dv, v.shape(), q.dtype());
  expect(kernel, "o", o, {s.batch, s.all_queries, s.heads, s.value_dim}, q.dtype());
  expect(kernel, "d_o", d_o, o.shape(), q.dtype());
  expect(kernel, "lse", lse, {s.batch, s.heads, s.all_queries}, Dtype::f32);
  const AttentionProblems problems(kernel, queue, s, part, q, scale);
  const int64_t heads = s.batch * s.heads, group = s.heads / s.kv_heads;
  if (heads * std::max(s.queries, s.keys) == 0) return;

  const Meter::Call call =
      metered(queue, kernel, attention_flops(s, part, 3, 2), bytes_of(dq, dk, dv, d_o, o, q, k, v));
  const Tensor delta = output_products(queue, d_o, o);
  const BiasSums bias(queue, s, part, num_blocks(s.keys, kAttentionBlock), q.arena());
  const BackwardParts parts{.problems = problems,
                            .sizes = s,
                            .group = group,
                            .query_blocks = num_blocks(s.queries, kAttentionBlock),
                            .key_blocks = num_blocks(s.keys, kAttentionBlock),
                            .block = num_blocks(rows.sum_floats(s.widest()), 16) * 16,
                            .bias = bias,
                            .dq = dq,
                            .dk = dk,
                            .dv = dv};
  const auto gradients_of = [&](int64_t head) -> AttentionGradients {
    const int64_t batch = head / s.heads, row = s.row_at(batch, head % s.heads);
    const int64_t query = s.query_at(batch, head % s.heads), key = s.key_at(batch, head % s.heads);
    const int64_t output = s.output_at(batch, head % s.heads), value = s.value_at(batch, head % s.heads);
    return {.dq = at(dq, query),
            .dk = at(dk, key),
            .dv = at(dv, value),
            .d_o = at(d_o, output),
            .q = at(q, query),
            .k = at(k, key),
            .v = at(v, value),
            .lse = lse.data<float>() + row,
            .delta = delta.data<float>() + row,
            .dq_sums = nullptr,
            .dk_sums = nullptr,
            .dv_sums = nullptr};
  };
  const int64_t items = heads / group, threads = queue.num_threads();
  if (parts.key_blocks <= kBlocksNearby && items >= kFewestHeads && items >= 2 * threads &&
      threads <= kHeadLanes)
    backward_by_heads(queue, q.arena(), rows, parts, gradients_of);
  else
    backward_by_rounds(queue, q.arena(), rows, parts, part.causal ? 0 : 1 - parts.key_blocks, gradients_of);
  bias.add(queue);
}

}  // namespace athanor::kernels
