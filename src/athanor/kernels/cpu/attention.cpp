#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "athanor/kernels/cpu/cpu.h"

namespace athanor {
namespace {

// Scratch is held for this many lanes, each of which takes items as long as there are some: a constant, so
// that the memory plan does not depend on the number of threads.
constexpr int64_t kLanes = 32;
// Items that keep many threads busy: more of them would need more memory (backward) or more packing
// (forward).
constexpr int64_t kEnoughItems = 32;
// Blocks of a head whose sums and packed keys fit in a second-level cache.
constexpr int64_t kBlocksNearby = 8;
// A pass by heads holds scratch for fewer lanes, since each needs more.
constexpr int64_t kHeadLanes = 16, kFewestHeads = 8;

struct Sizes {
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

// Of `all` rows those of a part, from `first` on.
int64_t rows_of_part(const char* kernel, const char* name, int64_t first, int64_t rows, int64_t all) {
  const int64_t count = rows < 0 ? all - first : rows;
  check(first >= 0 && count >= 0 && count <= all - first, "{}: got {} {} from {} on, expected them within {}",
        kernel, count, name, first, all);
  return count;
}

Sizes check_shapes(const char* kernel, const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionPart& part) {
  check(q.shape().dims() == 4 && q.dim(3) > 0, "{}: q is {}, expected [B,T,H,D] with D > 0", kernel,
        q.shape());
  check(k.defined() && k.shape().dims() == 4, "{}: k is {}, expected [B,S,K,D]", kernel, k.shape());
  const Sizes s{.batch = q.dim(0),
                .heads = q.dim(2),
                .head_dim = q.dim(3),
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
  expect(kernel, "v", v, k.shape(), q.dtype());
  if (part.first_keys != nullptr)
    expect(kernel, "first_keys", *part.first_keys, {s.batch, s.all_queries}, Dtype::i32);
  return s;
}

// Of `products` products of queries and keys, of those pairs that see each other (but for what first_keys hides).
double attention_flops(const Sizes& s, const AttentionPart& part, double products) {
  const int64_t twice = part.causal ? 2 * s.keys - s.queries + 1 : 2 * s.keys;
  const double pairs = static_cast<double>(s.queries) * (static_cast<double>(twice) / 2);
  return 2 * products * pairs * static_cast<double>(s.batch * s.heads * s.head_dim);
}

// What the heads of one sequence work on.
class Problems {
 public:
  Problems(const char* kernel, const Queue& queue, const Sizes& s, const AttentionPart& part, const Tensor& q,
           float scale)
      : all_{.queries = s.queries,
             .keys = s.keys,
             .head_dim = s.head_dim,
             .q_stride = s.heads * s.head_dim,
             .kv_stride = s.kv_heads * s.head_dim,
             .scale = scale,
             .offset = part.causal ? s.keys - s.queries : s.keys} {
    if (part.first_keys == nullptr) return;
    first_keys_ = empty(q.arena(), {s.batch, s.queries}, Dtype::i32, Category::workspace);
    if (!on_cpu(queue)) return;
    for (int64_t b = 0; b < s.batch; ++b) {
      const int32_t* from = part.first_keys->data<int32_t>() + b * s.all_queries + s.first_query;
      int32_t* to = first_keys_.data<int32_t>() + b * s.queries;
      for (int64_t t = 0; t < s.queries; ++t) {
        check(from[t] >= (t == 0 ? 0 : from[t - 1]), "{}: first_keys of sequence {} fall at query {} to {}",
              kernel, b, t, from[t]);
        to[t] = static_cast<int32_t>(std::clamp<int64_t>(from[t] - s.first_key, 0, s.keys));
      }
    }
  }
  AttentionProblem of(int64_t batch) const {
    AttentionProblem problem = all_;
    if (first_keys_.defined()) problem.first_keys = first_keys_.data<int32_t>() + batch * all_.queries;
    return problem;
  }

 private:
  AttentionProblem all_;
  Tensor first_keys_;
};

// Scratch of kLanes lanes. run() calls body(item, scratch) for every item, with scratch that no other running
// item has.
class Lanes {
 public:
  Lanes(Queue& queue, Arena& arena, int64_t most_items, int64_t floats, int64_t most_lanes = kLanes)
      : queue_(queue),
        lanes_(std::min(most_items, most_lanes)),
        floats_(num_blocks(floats, 16) * 16),  // whole cache lines
        scratch_(empty(arena, {lanes_, floats_}, Dtype::f32, Category::workspace)) {}

  template <typename Body>
  void run(int64_t items, const Body& body) {
    // Each thread begins with an equal run of items, those whose rows it likely wrote, and then helps the others.
    const int64_t lanes = std::min({items, lanes_, static_cast<int64_t>(queue_.num_threads())});
    std::array<std::atomic<int64_t>, kLanes> next;
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

// Queries of one item: the more, the less often keys are packed; but their sums stay in a second-level cache.
// Results do not depend on it.
int64_t query_tile(int64_t heads, int64_t queries, int64_t head_dim) {
  constexpr int64_t kSumsNearby = 1024 * 64;
  int64_t tile = kAttentionBlock;
  while (tile < queries && 2 * tile * head_dim <= kSumsNearby) tile *= 2;
  while (tile > 64 && heads * num_blocks(queries, tile) < kEnoughItems) tile /= 2;
  return tile;
}

void forward(Queue& queue, Tensor& o, Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
             float scale, const AttentionPart& part) {
  const char* kernel = "attention.forward";
  const AttentionRows& rows =
      choose(queue, &RowTable::attention, row_type(kernel, q), &AttentionRows::forward);
  const Sizes s = check_shapes(kernel, q, k, v, part);
  expect(kernel, "o", o, q.shape(), q.dtype());
  expect(kernel, "lse", lse, {s.batch, s.heads, s.all_queries}, Dtype::f32);
  const Problems problems(kernel, queue, s, part, q, scale);
  const int64_t heads = s.batch * s.heads;
  const int64_t tile = query_tile(heads, s.queries, s.head_dim), tiles = num_blocks(s.queries, tile);
  const Meter::Call call = metered(queue, kernel, attention_flops(s, part, 2), bytes_of(o, q, k, v));
  Lanes lanes(queue, q.arena(), heads * tiles, rows.forward_floats(s.head_dim, tile));
  lanes.run(heads * tiles, [&](int64_t item, float* scratch) {
    const int64_t first = (tiles - 1 - item / heads) * tile;  // the last see the most keys: long items first
    const int64_t batch = item % heads / s.heads, head = item % heads % s.heads;
    const int64_t query = s.query_at(batch, head), key = s.key_at(batch, head);
    rows.forward(at(o, query), lse.data<float>() + s.row_at(batch, head), at(q, query), at(k, key),
                 at(v, key), problems.of(batch), first, std::min(tile, s.queries - first), scratch);
  });
}

// delta [B,H,T] = sum over D of d_o * o, of all queries.
Tensor output_products(Queue& queue, const Tensor& d_o, const Tensor& o, const Sizes& s) {
  const auto row_delta =
      choose(queue, &RowTable::attention, row_type("attention.backward", o), &AttentionRows::delta).delta;
  Tensor delta = empty(o.arena(), {s.batch, s.heads, s.all_queries}, Dtype::f32, Category::workspace);
  const int64_t width = s.heads * s.head_dim;
  for_blocks(queue, s.batch * s.all_queries, rows_per_block(width), [&](int64_t first, int64_t count) {
    for (int64_t row = first; row < first + count; ++row)
      row_delta(delta.data<float>() + row / s.all_queries * s.heads * s.all_queries + row % s.all_queries,
                s.all_queries, at(d_o, row * width), at(o, row * width), s.heads, s.head_dim);
  });
  return delta;
}

// Which blocks of keys a block of queries of one sequence meets, and the other way round: runs, as both ends rise.
class BlockPairs {
 public:
  struct Run {
    int64_t first, last;  // none if first > last
    bool has(int64_t block) const { return first <= block && block <= last; }
  };
  explicit BlockPairs(const AttentionProblem& problem) : problem_(problem) {}
  int64_t query_blocks() const { return num_blocks(problem_.queries, kAttentionBlock); }
  int64_t key_blocks() const { return num_blocks(problem_.keys, kAttentionBlock); }

  Run keys_of(int64_t query) const {
    const int64_t last = std::min((query + 1) * kAttentionBlock, problem_.queries) - 1;
    const int64_t first_key = problem_.first_key(query * kAttentionBlock);
    if (first_key >= problem_.end_key(last)) return {0, -1};
    return {first_key / kAttentionBlock, (problem_.end_key(last) - 1) / kAttentionBlock};
  }
  Run queries_of(int64_t key) const {
    Run run{0, query_blocks() - 1};
    while (run.first <= run.last && !keys_of(run.first).has(key)) ++run.first;
    while (run.first <= run.last && !keys_of(run.last).has(key)) --run.last;
    return run;
  }
  bool is_seen(int64_t key) const {
    const Run queries = queries_of(key);
    return queries.first <= queries.last;
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
  AttentionProblem problem_;
};

// Rows of one head that nothing is added to.
void clear_rows(const Tensor& x, int64_t first_element, int64_t stride, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row)
    std::memset(at(x, first_element + row * stride), 0, static_cast<size_t>(width) * size_of(x.dtype()));
}

// What lies beside the pairs of a head's part.
struct BackwardParts {
  const Problems& problems;
  const Sizes& sizes;
  int64_t group, query_blocks, key_blocks;  // heads that share keys; blocks of a head
  int64_t block;                            // floats of the sums of a block
  Tensor &dq, &dk, &dv;
  int64_t heads() const { return sizes.batch * sizes.heads; }
  AttentionProblem problem_of(int64_t head) const { return problems.of(head / sizes.heads); }
};

// What no pair writes: zeros for a block of queries that sees nothing, or of keys that nobody sees.
void clear_queries(const BackwardParts& parts, const AttentionProblem& problem, int64_t head, int64_t block) {
  const Sizes& s = parts.sizes;
  const int64_t row = block * kAttentionBlock;
  clear_rows(parts.dq, s.query_at(head / s.heads, head % s.heads) + row * problem.q_stride, problem.q_stride,
             std::min(kAttentionBlock, s.queries - row), s.head_dim);
}
void clear_keys(const BackwardParts& parts, const AttentionProblem& problem, int64_t head, int64_t block) {
  const Sizes& s = parts.sizes;
  const int64_t row = block * kAttentionBlock;
  for (const Tensor* x : {&parts.dk, &parts.dv})
    clear_rows(*x, s.key_at(head / s.heads, head % s.heads) + row * problem.kv_stride, problem.kv_stride,
               std::min(kAttentionBlock, s.keys - row), s.head_dim);
}

// One thread does all heads that share their keys, pair after pair: what it packs and sums stays in its caches.
template <typename GradientsOf>
void backward_by_heads(Queue& queue, Arena& arena, const AttentionRows& rows, const BackwardParts& parts,
                       const GradientsOf& gradients_of) {
  const int64_t group = parts.group, block = parts.block, sums = parts.key_blocks * block;
  const int64_t items = parts.heads() / group;
  const int64_t own = num_blocks(rows.backward_floats(parts.sizes.head_dim, parts.key_blocks), 16) * 16;
  Lanes lanes(queue, arena, items, own + block + 2 * group * sums, kHeadLanes);
  lanes.run(items, [&](int64_t item, float* scratch) {
    float *const dq_sums = scratch + own, *const dk_sums = dq_sums + block,
                 *const dv_sums = dk_sums + group * sums;
    const AttentionProblem problem = parts.problem_of(item * group);
    const BlockPairs pairs(problem);
    AttentionGradients g{};
    for (int64_t i = 0; i < group; ++i) {
      g = gradients_of(item * group + i);
      g.dq_sums = dq_sums;
      for (int64_t query = 0; query < parts.query_blocks; ++query) {
        const BlockPairs::Run keys = pairs.keys_of(query);
        if (keys.last < keys.first) clear_queries(parts, problem, item * group + i, query);
        for (int64_t key = keys.last; key >= keys.first; --key) {
          g.dk_sums = dk_sums + i * sums + key * block;
          g.dv_sums = dv_sums + i * sums + key * block;
          AttentionPair pair = pairs.pair(query, key, group);
          pair.has_query = !pair.starts_dq;
          pair.has_key = !pair.starts_dkv || i > 0;
          pair.key_slot = key;
          rows.backward(g, problem, pair, scratch);
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

// Pairs that share a block must take turns, always in the same order (attention_rows.h): a round runs those whose
// queries are so many blocks after their keys. Sums are held for a wave of heads (whole groups) at a time.
template <typename GradientsOf>
void backward_by_rounds(Queue& queue, Arena& arena, const AttentionRows& rows, const BackwardParts& parts,
                        int64_t first_round, const GradientsOf& gradients_of) {
  const int64_t group = parts.group, blocks = std::max(parts.query_blocks, parts.key_blocks);
  const int64_t heads = parts.heads(), round_items = group * (blocks + 1) / 2, sums = blocks * parts.block;
  const int64_t wave = std::min(heads, group * num_blocks(kEnoughItems, round_items));
  const Tensor held = empty(arena, {3, wave, sums}, Dtype::f32, Category::workspace);
  Lanes lanes(queue, arena, wave * blocks, rows.backward_floats(parts.sizes.head_dim, 1));
  const auto with_sums = [&](int64_t first, int64_t slot, int64_t query, int64_t key) {
    AttentionGradients g = gradients_of(first + slot);
    float* const dq_sums = held.data<float>() + slot * sums;
    g.dq_sums = dq_sums + query * parts.block;
    g.dk_sums = dq_sums + wave * sums + key * parts.block;
    g.dv_sums = dq_sums + 2 * wave * sums + key * parts.block;
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
        if (!pairs.keys_of(query).has(key)) return;
        rows.backward(with_sums(first, slot, query, key), problem, pairs.pair(query, key, group), scratch);
      });
    }
    queue.parallel_for(blocks * count / group, [&](int64_t item) {
      const int64_t slot = item / blocks * group, index = item % blocks;
      const AttentionProblem problem = parts.problem_of(first + slot);
      const BlockPairs pairs(problem);
      for (int64_t i = 0; index < parts.query_blocks && i < group; ++i)
        if (pairs.keys_of(index).last < 0) clear_queries(parts, problem, first + slot + i, index);
      if (index >= parts.key_blocks) return;
      if (!pairs.is_seen(index))
        clear_keys(parts, problem, first + slot, index);
      else if (group > 1)
        rows.combine(with_sums(first, slot, 0, index), problem, index, group, sums);
    });
  }
}

void backward(Queue& queue, Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& d_o, const Tensor& o,
              const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v, float scale,
              const AttentionPart& part) {
  const char* kernel = "attention.backward";
  const AttentionRows& rows =
      choose(queue, &RowTable::attention, row_type(kernel, q), &AttentionRows::backward);
  const Sizes s = check_shapes(kernel, q, k, v, part);
  check(!part.causal || s.keys == s.queries, "{}: got {} queries and {} keys, expected as many", kernel,
        s.queries, s.keys);
  expect(kernel, "dq", dq, q.shape(), q.dtype());
  expect(kernel, "dk", dk, k.shape(), q.dtype());
  expect(kernel, "dv", dv, k.shape(), q.dtype());
  expect(kernel, "d_o", d_o, q.shape(), q.dtype());
  expect(kernel, "o", o, q.shape(), q.dtype());
  expect(kernel, "lse", lse, {s.batch, s.heads, s.all_queries}, Dtype::f32);
  const Problems problems(kernel, queue, s, part, q, scale);
  const int64_t heads = s.batch * s.heads, group = s.heads / s.kv_heads;
  if (heads * std::max(s.queries, s.keys) == 0) return;

  const Meter::Call call =
      metered(queue, kernel, attention_flops(s, part, 5), bytes_of(dq, dk, dv, d_o, o, q, k, v));
  const Tensor delta = output_products(queue, d_o, o, s);
  const BackwardParts parts{.problems = problems,
                            .sizes = s,
                            .group = group,
                            .query_blocks = num_blocks(s.queries, kAttentionBlock),
                            .key_blocks = num_blocks(s.keys, kAttentionBlock),
                            .block = num_blocks(rows.sum_floats(s.head_dim), 16) * 16,
                            .dq = dq,
                            .dk = dk,
                            .dv = dv};
  const auto gradients_of = [&](int64_t head) -> AttentionGradients {
    const int64_t batch = head / s.heads, row = s.row_at(batch, head % s.heads);
    const int64_t query = s.query_at(batch, head % s.heads), key = s.key_at(batch, head % s.heads);
    return {.dq = at(dq, query),
            .dk = at(dk, key),
            .dv = at(dv, key),
            .d_o = at(d_o, query),
            .q = at(q, query),
            .k = at(k, key),
            .v = at(v, key),
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
}

float weight_of(float lse, float total) {
  return lse == -std::numeric_limits<float>::infinity() ? 0.0f : std::exp(lse - total);
}

template <typename T>
void merge_row(float* sum, const void* o, float before, float after, int64_t width) {
  for (int64_t i = 0; i < width; ++i)
    sum[i] = before * sum[i] + after * to_float(static_cast<const T*>(o)[i]);
}

void merge(Queue& queue, Tensor& sum, Tensor& lse, const Tensor& o, const Tensor& o_lse, int64_t first,
           int64_t count) {
  const char* kernel = "attention.merge";
  const RowType type = row_type(kernel, o);
  check(o.shape().dims() == 4, "{}: o is {}, expected [B,T,H,D]", kernel, o.shape());
  const int64_t batch = o.dim(0), length = o.dim(1), heads = o.dim(2), width = o.dim(3);
  rows_of_part(kernel, "queries", first, count, length);
  expect(kernel, "sum", sum, o.shape(), Dtype::f32);
  expect(kernel, "lse", lse, {batch, heads, length}, Dtype::f32);
  expect(kernel, "o_lse", o_lse, lse.shape(), Dtype::f32);
  const Meter::Call call = metered(queue, kernel, 3 * flops_of(o), 2 * bytes_of(sum) + bytes_of(o));
  for_blocks(queue, batch * count, rows_per_block(heads * width), [&](int64_t begin, int64_t rows) {
    for (int64_t i = begin; i < begin + rows; ++i)
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t b = i / count, t = first + i % count;
        float& mine = lse.data<float>()[(b * heads + head) * length + t];
        const float other = o_lse.data<float>()[(b * heads + head) * length + t];
        const float top = std::max(mine, other);
        const float total =
            std::isinf(top) && top < 0 ? top : top + std::log(std::exp(mine - top) + std::exp(other - top));
        const int64_t element = ((b * length + t) * heads + head) * width;
        const auto merged = type == kF32    ? merge_row<float>
                            : type == kBf16 ? merge_row<Bf16>
                                            : merge_row<F16>;
        merged(sum.data<float>() + element, at(o, element), weight_of(mine, total), weight_of(other, total),
               width);
        mine = total;
      }
  });
}

}  // namespace

const AttentionKernels cpu_attention{forward, backward, merge};

}  // namespace athanor
