#include "athanor/kernels/cpu/cpu.h"

namespace athanor {
namespace {

constexpr int64_t kQueryTile = 64;
// Scratch is held for this many lanes, each of which walks over its share of the items: a constant, so that
// the memory plan does not depend on the number of threads, and far more than threads, so that lanes balance.
constexpr int64_t kLanes = 32;

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

AttentionProblem problem_of(const Sizes& s, float scale) {
  return {s.queries, s.keys, s.head_dim, s.heads * s.head_dim, s.kv_heads * s.head_dim, scale};
}

// body(item, scratch) for every item, with scratch of `floats` that no other running item has.
template <typename Body>
void for_items(Queue& queue, Arena& arena, int64_t items, int64_t floats, const Body& body) {
  const int64_t lanes = std::min(items, kLanes);
  floats = num_blocks(floats, 16) * 16;  // whole cache lines
  const Tensor scratch = empty(arena, {lanes, floats}, Dtype::f32, Category::workspace);
  queue.parallel_for(lanes, [&](int64_t lane) {
    for (int64_t item = lane; item < items; item += lanes) body(item, scratch.data<float>() + lane * floats);
  });
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
  const int64_t group = s.heads / s.kv_heads, tiles = num_blocks(s.queries, kQueryTile);
  const int64_t heads = s.batch * s.heads;
  for_items(queue, q.arena(), heads * tiles, rows.scratch_floats(problem, group),
            [&](int64_t item, float* scratch) {
              const int64_t tile =
                  tiles - 1 - item / heads;  // the last tiles see the most keys: long items first
              const int64_t batch = item % heads / s.heads, head = item % heads % s.heads;
              const int64_t query = (batch * s.queries * s.heads + head) * s.head_dim;
              const int64_t key = (batch * s.keys * s.kv_heads + head / group) * s.head_dim;
              const int64_t first = tile * kQueryTile;
              rows.forward(at(o, query), lse.data<float>() + (batch * s.heads + head) * s.queries,
                           at(q, query), at(k, key), at(v, key), problem, first,
                           std::min(kQueryTile, s.queries - first), scratch);
            });
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
  const int64_t group = s.heads / s.kv_heads;
  // Nothing to do without positions, though there may be heads.
  const int64_t items = s.queries == 0 ? 0 : s.batch * s.kv_heads;
  for_items(queue, q.arena(), items, rows.scratch_floats(problem, group), [&](int64_t item, float* scratch) {
    const int64_t batch = item / s.kv_heads, kv_head = item % s.kv_heads;
    const int64_t query = (batch * s.queries * s.heads + kv_head * group) * s.head_dim;
    const int64_t key = (batch * s.keys * s.kv_heads + kv_head) * s.head_dim;
    const float* row_lse = lse.data<float>() + (batch * s.heads + kv_head * group) * s.queries;
    rows.backward(at(dq, query), at(dk, key), at(dv, key), at(d_o, query), at(o, query), row_lse,
                  at(q, query), at(k, key), at(v, key), problem, group, scratch);
  });
}

}  // namespace

const AttentionKernels cpu_attention{forward, backward};

}  // namespace athanor
