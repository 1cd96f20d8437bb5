#include <array>
#include <atomic>

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
  int64_t batch, queries, heads, head_dim, keys, kv_heads;
};

Sizes check_shapes(const char* kernel, const Tensor& q, const Tensor& k, const Tensor& v) {
  check(q.shape().dims() == 4 && q.dim(3) > 0, "{}: q is {}, expected [B,T,H,D] with D > 0", kernel,
        q.shape());
  check(k.defined() && k.shape().dims() == 4, "{}: k is {}, expected [B,S,K,D]", kernel, k.shape());
  const Sizes s{q.dim(0), q.dim(1), q.dim(2), q.dim(3), k.dim(1), k.dim(2)};
  check(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "{}: got {} heads of q and {} of k, expected a multiple",
        kernel, s.heads, s.kv_heads);
  check(s.keys >= s.queries, "{}: got {} queries and {} keys, expected at least as many keys", kernel,
        s.queries, s.keys);
  expect(kernel, "k", k, {s.batch, s.keys, s.kv_heads, s.head_dim}, q.dtype());
  expect(kernel, "v", v, k.shape(), q.dtype());
  return s;
}

// Of `products` products of queries and keys, of those pairs that see each other.
double attention_flops(const Sizes& s, double products) {
  const double pairs = static_cast<double>(s.queries) * (static_cast<double>(2 * s.keys - s.queries + 1) / 2);
  return 2 * products * pairs * static_cast<double>(s.batch * s.heads * s.head_dim);
}

AttentionProblem problem_of(const Sizes& s, float scale) {
  return {s.queries, s.keys, s.head_dim, s.heads * s.head_dim, s.kv_heads * s.head_dim, scale};
}

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
             float scale) {
  const char* kernel = "attention.forward";
  const AttentionRows& rows =
      choose(queue, &RowTable::attention, row_type(kernel, q), &AttentionRows::forward);
  const Sizes s = check_shapes(kernel, q, k, v);
  expect(kernel, "o", o, q.shape(), q.dtype());
  expect(kernel, "lse", lse, {s.batch, s.heads, s.queries}, Dtype::f32);
  const AttentionProblem problem = problem_of(s, scale);
  const int64_t group = s.heads / s.kv_heads, heads = s.batch * s.heads;
  const int64_t tile = query_tile(heads, s.queries, s.head_dim), tiles = num_blocks(s.queries, tile);
  const Meter::Call call = metered(queue, kernel, attention_flops(s, 2), bytes_of(o, q, k, v));
  Lanes lanes(queue, q.arena(), heads * tiles, rows.forward_floats(s.head_dim, tile));
  lanes.run(heads * tiles, [&](int64_t item, float* scratch) {
    const int64_t first = (tiles - 1 - item / heads) * tile;  // the last see the most keys: long items first
    const int64_t batch = item % heads / s.heads, head = item % heads % s.heads;
    const int64_t query = (batch * s.queries * s.heads + head) * s.head_dim;
    const int64_t key = (batch * s.keys * s.kv_heads + head / group) * s.head_dim;
    rows.forward(at(o, query), lse.data<float>() + (batch * s.heads + head) * s.queries, at(q, query),
                 at(k, key), at(v, key), problem, first, std::min(tile, s.queries - first), scratch);
  });
}

// delta [B,H,T] = sum over D of d_o * o.
Tensor output_products(Queue& queue, const Tensor& d_o, const Tensor& o, const Sizes& s) {
  const auto row_delta =
      choose(queue, &RowTable::attention, row_type("attention.backward", o), &AttentionRows::delta).delta;
  Tensor delta = empty(o.arena(), {s.batch, s.heads, s.queries}, Dtype::f32, Category::workspace);
  const int64_t width = s.heads * s.head_dim;
  for_blocks(queue, s.batch * s.queries, rows_per_block(width), [&](int64_t first, int64_t count) {
    for (int64_t row = first; row < first + count; ++row)
      row_delta(delta.data<float>() + row / s.queries * s.heads * s.queries + row % s.queries, s.queries,
                at(d_o, row * width), at(o, row * width), s.heads, s.head_dim);
  });
  return delta;
}

struct BackwardParts {
  const AttentionProblem& problem;
  const Sizes& sizes;
  int64_t group, blocks, block;  // heads that share keys; blocks of a head; floats of the sums of a block
  int64_t heads() const { return sizes.batch * sizes.heads; }
};

// One thread does all heads that share their keys, pair after pair: what it packs and sums stays in its caches.
template <typename GradientsOf>
void backward_by_heads(Queue& queue, Arena& arena, const AttentionRows& rows, const BackwardParts& parts,
                       const GradientsOf& gradients_of) {
  const AttentionProblem& problem = parts.problem;
  const int64_t head_dim = parts.sizes.head_dim, group = parts.group, blocks = parts.blocks,
                block = parts.block;
  const int64_t items = parts.heads() / group, sums = blocks * block;
  const int64_t own = num_blocks(rows.backward_floats(head_dim, blocks), 16) * 16;
  Lanes lanes(queue, arena, items, own + block + 2 * group * sums, kHeadLanes);
  lanes.run(items, [&](int64_t item, float* scratch) {
    float *const dq_sums = scratch + own, *const dk_sums = dq_sums + block,
                 *const dv_sums = dk_sums + group * sums;
    AttentionGradients g{};
    for (int64_t i = 0; i < group; ++i) {
      g = gradients_of(item * group + i);
      g.dq_sums = dq_sums;
      for (int64_t query = 0; query < blocks; ++query)
        for (int64_t key = query; key >= 0; --key) {
          g.dk_sums = dk_sums + i * sums + key * block;
          g.dv_sums = dv_sums + i * sums + key * block;
          rows.backward(g, problem,
                        {.query = query,
                         .key = key,
                         .starts_dq = key == query,
                         .ends_dq = key == 0,
                         .starts_dkv = key == query,
                         .ends_dkv = query == blocks - 1 && group == 1,
                         .has_query = key != query,
                         .has_key = key != query || i > 0,
                         .key_slot = key},
                        scratch);
        }
    }
    for (int64_t key = 0; group > 1 && key < blocks; ++key) {
      g.dk_sums = dk_sums + key * block;
      g.dv_sums = dv_sums + key * block;
      rows.combine(g, problem, key, group, sums);
    }
  });
}

// Pairs that share a block must take turns, always in the same order (attention_rows.h): round r runs those whose
// queries are r blocks after their keys. Sums are held for a wave of heads (whole groups) at a time.
template <typename GradientsOf>
void backward_by_rounds(Queue& queue, Arena& arena, const AttentionRows& rows, const BackwardParts& parts,
                        const GradientsOf& gradients_of) {
  const AttentionProblem& problem = parts.problem;
  const int64_t head_dim = parts.sizes.head_dim, group = parts.group, blocks = parts.blocks,
                block = parts.block;
  const int64_t heads = parts.heads(), round_items = group * (blocks + 1) / 2, sums = blocks * block;
  const int64_t wave = std::min(heads, group * num_blocks(kEnoughItems, round_items));
  const Tensor held = empty(arena, {3, wave, sums}, Dtype::f32, Category::workspace);
  Lanes lanes(queue, arena, wave * blocks, rows.backward_floats(head_dim, 1));
  const auto with_sums = [&](int64_t first, int64_t slot, int64_t query, int64_t key) {
    AttentionGradients g = gradients_of(first + slot);
    float* const dq_sums = held.data<float>() + slot * sums;
    g.dq_sums = dq_sums + query * block;
    g.dk_sums = dq_sums + wave * sums + key * block;
    g.dv_sums = dq_sums + 2 * wave * sums + key * block;
    return g;
  };
  for (int64_t first = 0; first < heads; first += wave) {
    const int64_t count = std::min(wave, heads - first);
    for (int64_t round = 0; round < blocks; ++round)
      lanes.run((blocks - round) * count, [&](int64_t item, float* scratch) {
        const int64_t key = item / count, query = key + round, slot = item % count;
        const AttentionPair pair = {.query = query,
                                    .key = key,
                                    .starts_dq = round == 0,
                                    .ends_dq = key == 0,
                                    .starts_dkv = round == 0,
                                    .ends_dkv = query == blocks - 1 && group == 1};
        rows.backward(with_sums(first, slot, query, key), problem, pair, scratch);
      });
    if (group == 1) continue;
    queue.parallel_for(blocks * count / group, [&](int64_t item) {
      const int64_t slot = item / blocks * group, key = item % blocks;
      rows.combine(with_sums(first, slot, 0, key), problem, key, group, sums);
    });
  }
}

void backward(Queue& queue, Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& d_o, const Tensor& o,
              const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v, float scale) {
  const char* kernel = "attention.backward";
  const AttentionRows& rows =
      choose(queue, &RowTable::attention, row_type(kernel, q), &AttentionRows::backward);
  const Sizes s = check_shapes(kernel, q, k, v);
  check(s.keys == s.queries, "{}: got {} queries and {} keys, expected as many", kernel, s.queries, s.keys);
  expect(kernel, "dq", dq, q.shape(), q.dtype());
  expect(kernel, "dk", dk, k.shape(), q.dtype());
  expect(kernel, "dv", dv, k.shape(), q.dtype());
  expect(kernel, "d_o", d_o, q.shape(), q.dtype());
  expect(kernel, "o", o, q.shape(), q.dtype());
  expect(kernel, "lse", lse, {s.batch, s.heads, s.queries}, Dtype::f32);
  const AttentionProblem problem = problem_of(s, scale);
  const int64_t heads = s.batch * s.heads, group = s.heads / s.kv_heads;
  if (heads * s.queries == 0) return;

  const Meter::Call call =
      metered(queue, kernel, attention_flops(s, 5), bytes_of(dq, dk, dv, d_o, o, q, k, v));
  const Tensor delta = output_products(queue, d_o, o, s);
  const BackwardParts parts{problem, s, group, num_blocks(s.queries, kAttentionBlock),
                            num_blocks(rows.sum_floats(s.head_dim), 16) * 16};
  const auto gradients_of = [&](int64_t head) -> AttentionGradients {
    const int64_t batch = head / s.heads, position = (batch * s.heads + head % s.heads) * s.queries;
    const int64_t query = (batch * s.queries * s.heads + head % s.heads) * s.head_dim;
    const int64_t key = (batch * s.keys * s.kv_heads + head % s.heads / group) * s.head_dim;
    return {.dq = at(dq, query),
            .dk = at(dk, key),
            .dv = at(dv, key),
            .d_o = at(d_o, query),
            .q = at(q, query),
            .k = at(k, key),
            .v = at(v, key),
            .lse = lse.data<float>() + position,
            .delta = delta.data<float>() + position,
            .dq_sums = nullptr,
            .dk_sums = nullptr,
            .dv_sums = nullptr};
  };
  const int64_t items = heads / group, threads = queue.num_threads();
  if (parts.blocks <= kBlocksNearby && items >= kFewestHeads && items >= 2 * threads && threads <= kHeadLanes)
    backward_by_heads(queue, q.arena(), rows, parts, gradients_of);
  else
    backward_by_rounds(queue, q.arena(), rows, parts, gradients_of);
}

}  // namespace

const AttentionKernels cpu_attention{forward, backward};

}  // namespace athanor
