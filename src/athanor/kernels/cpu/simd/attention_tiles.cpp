#include "athanor/kernels/cpu/simd/attention_tiles.h"

#include "athanor/kernels/cpu/attention_terms.h"
#include "athanor/kernels/cpu/simd/product.h"
#include "athanor/kernels/cpu/simd/vec_loops.h"
#include "athanor/kernels/cpu/simd/vec_math.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

constexpr int64_t kStrip = 16;  // rows of a tile on the diagonal that are worked on together
constexpr float kLowest = -3.4028235e38f;

inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
inline int64_t vectors(int64_t n) {
  return (n + kLanes - 1) / kLanes;
}

// The keys that any query of a strip sees, as bits.
inline uint64_t keys_of_strip(const TileShape& shape, int64_t first) {
  uint64_t keys = 0;
  for (int64_t r = first; r < smaller(first + kStrip, shape.queries); ++r) keys |= shape.rows[r];
  return keys;
}
// Up to the last key that any query of a strip sees: how many; at most 0: it sees none.
inline int64_t seen_by_strip(const TileShape& shape, int64_t first, int64_t count) {
  if (shape.rows == nullptr) return shape.visible(first + count - 1);
  const uint64_t keys = keys_of_strip(shape, first);
  return keys == 0 ? 0 : 64 - __builtin_clzll(keys);
}
// Whether all queries see all keys: then the whole tile is one strip.
inline bool is_full(const TileShape& shape) {
  return shape.rows == nullptr && shape.visible(0) >= shape.keys;
}

// body(first, count, seen) for strips of queries; `seen` > 0 is the most keys that a query of the strip sees. So half of a tile
// on the diagonal is never computed.
template <typename Body>
[[gnu::always_inline]] inline void for_strips(const TileShape& shape, Body body) {
  const int64_t step = is_full(shape) ? shape.queries : kStrip;
  for (int64_t first = 0; first < shape.queries; first += step) {
    const int64_t count = smaller(step, shape.queries - first);
    const int64_t seen = seen_by_strip(shape, first, count);
    if (seen > 0) body(first, count, seen);
  }
}

// Queries [begin, end), whole strips, of which some may see a key of the strip that begins at `first`.
struct QueryRange {
  int64_t begin, end;
};
inline QueryRange queries_of_strip(const TileShape& shape, int64_t first) {
  if (shape.rows == nullptr) {
    const int64_t first_to_see = first + 1 - shape.diagonal;
    return {first_to_see > 0 ? first_to_see / kStrip * kStrip : 0, shape.queries};
  }
  const uint64_t strip = uint64_t{0xffff} << first;
  int64_t begin = 0, end = (shape.queries + kStrip - 1) / kStrip * kStrip;
  while (begin < end && (keys_of_strip(shape, begin) & strip) == 0) begin += kStrip;
  while (begin < end && (keys_of_strip(shape, end - kStrip) & strip) == 0) end -= kStrip;
  return {begin, smaller(end, shape.queries)};
}

// The same for strips of keys; `query` is the first of the `count` queries that see a key of the strip.
template <typename Body>
[[gnu::always_inline]] inline void for_key_strips(const TileShape& shape, Body body) {
  const int64_t step = is_full(shape) ? shape.keys : kStrip;
  for (int64_t first = 0; first < shape.keys; first += step) {
    const QueryRange queries = queries_of_strip(shape, first);
    if (queries.begin < queries.end)
      body(first, smaller(step, shape.keys - first), queries.begin, queries.end - queries.begin);
  }
}

// body(j, part) for the vectors of row r that its strip computed: Full, or Tail if only some lanes are seen.
template <typename Body>
[[gnu::always_inline]] inline void for_seen(const TileShape& shape, int64_t r, int64_t computed, Body body) {
  if (shape.rows != nullptr) {
    for (int64_t j = 0; j < computed; j += kLanes) body(j, Tail{lanes_of_bits(shape.rows[r] >> j)});
    return;
  }
  const int64_t visible = shape.visible(r);
  for (int64_t j = 0; j < computed; j += kLanes) {
    const int64_t seen = visible - j;
    if (seen >= kLanes)
      body(j, Full{});
    else
      body(j, Tail{first_lanes(static_cast<int>(seen > 0 ? seen : 0))});
  }
}

// Turns the scores of one row into exp(score - largest), and updates `largest` and the sums so far.
inline void soften_row(const ForwardTile& tile, const TileShape& shape, int64_t r, int64_t computed,
                       bool first) {
  float* scores = tile.scores + r * kTile;
  float* totals = tile.totals + r * kLanes;
  float* sum = tile.sum + r * shape.value_row;
  V top = set1(kLowest);
  for_seen(
      shape, r, computed, [&](int64_t j, auto part) __attribute__((always_inline)) {
        top = max(keep(load(scores + j), part, top), top);
      });
  const float before = first ? kLowest : tile.largest[r];
  const float tile_top = max_lanes(top);
  const float largest = tile_top > before ? tile_top : before;
  V total = first ? zero() : load(totals);
  if (largest > before && !first) {
    const V shrink = exp(set1(before - largest));
    total = total * shrink;
    for (int64_t i = 0; i < shape.value_row; i += kLanes) store(sum + i, load(sum + i) * shrink);
  }
  for_seen(
      shape, r, computed, [&](int64_t j, auto part) __attribute__((always_inline)) {
        const V p = keep(exp(load(scores + j) - set1(largest)), part, zero());
        total = total + p;
        store(scores + j, p);
      });
  store(totals, total);
  tile.largest[r] = largest;
}

// Within 4 units in the last place: a series near 0, where 1 - e^-2|x| cancels.
[[gnu::always_inline]] inline V tanh(V x) {
  const V t = x * x;
  V q = set1(-1382.f / 155925);
  q = fma(q, t, set1(62.f / 2835));
  q = fma(q, t, set1(-17.f / 315));
  q = fma(q, t, set1(2.f / 15));
  q = fma(q, t, set1(-1.f / 3));
  const V near = fma(q * t, x, x), decay = exp(minus_abs(x + x));
  const V far = (set1(1.f) - decay) / (set1(1.f) + decay);
  const V whole = select(less(x, zero()), zero() - far, far);
  return select(less(t, set1(0.09f)), near, whole);
}

// Rows of terms of one query, and what they make of x = scale * q.k.
struct TermRows {
  alignas(64) float bias[kTile] = {}, factors[kTile] = {}, slopes[kTile];
  bool has_cap, has_bias;
  float softcap;

  TermRows(const TileShape& shape, int64_t r)
      : has_cap(shape.terms->softcap > 0),
        has_bias(shape.terms->bias != nullptr),
        softcap(shape.terms->softcap) {
    if (has_bias) bias_row(*shape.terms, of(shape, r), bias);
  }
  static AttentionRow of(const TileShape& shape, int64_t r) {
    return {shape.query + r, shape.key, shape.keys};
  }
  V score(V x, int64_t j) {
    if (has_cap) {
      const V capped = tanh(x / set1(softcap));
      store(slopes + j, set1(1.f) - capped * capped);
      x = set1(softcap) * capped;
    }
    return has_bias ? x + load(bias + j) : x;
  }
};

[[gnu::noinline]] void change_scores(float* scores, const TileShape& shape, int64_t r, int64_t count,
                                     int64_t computed) {
  for (int64_t i = 0; i < count; ++i) {
    TermRows terms(shape, r + i);
    float* row = scores + i * kTile;
    for (int64_t j = 0; j < computed; j += kLanes) store(row + j, terms.score(load(row + j), j));
  }
}

[[gnu::noinline]] void drop(float* weights, const TileShape& shape, int64_t r, int64_t count,
                            int64_t computed) {
  alignas(64) float factors[kTile] = {};
  for (int64_t i = 0; shape.terms->drop_rate > 0 && i < count; ++i) {
    keep_row(*shape.terms, TermRows::of(shape, r + i), factors);
    float* row = weights + i * kTile;
    for (int64_t j = 0; j < computed; j += kLanes) store(row + j, load(row + j) * load(factors + j));
  }
}

// Scores and products with values become the weights of dv and ds.
[[gnu::noinline]] void soften_backward(const BackwardTile& tile, const TileShape& shape, int64_t r,
                                       int64_t count, int64_t computed) {
  for (int64_t i = r; i < r + count; ++i) {
    TermRows terms(shape, i);
    keep_row(*shape.terms, TermRows::of(shape, i), terms.factors);
    const V lse = set1(tile.lse[i]), delta = set1(tile.delta[i]);
    float *p_row = tile.scores + i * kTile, *ds_row = tile.d_scores + i * kTile;
    for_seen(
        shape, i, computed, [&](int64_t j, auto part) __attribute__((always_inline)) {
          const V p = keep(exp(terms.score(load(p_row + j), j) - lse), part, zero());
          const V factor = load(terms.factors + j);
          store(p_row + j, p * factor);
          store(ds_row + j, keep(p * (load(ds_row + j) * factor - delta), part, zero()));
        });
    if (tile.bias_sums != nullptr) {
      const int64_t keys = smaller(computed, shape.keys);
      add_bias_row(*shape.terms, {shape.query + i, shape.key, keys}, ds_row, tile.bias_sums);
    }
    for (int64_t j = 0; terms.has_cap && j < computed; j += kLanes)
      store(ds_row + j, load(ds_row + j) * load(terms.slopes + j));
  }
}

}  // namespace

void attend(const ForwardTile& tile, const TileShape& shape, bool first) {
  for_strips(shape, [&](int64_t r, int64_t count, int64_t seen) {
    float* scores = tile.scores + r * kTile;
    const int64_t computed = vectors(seen) * kLanes;
    multiply(scores, kTile, tile.q + r * shape.row, shape.row, 1, tile.keys_t, kTile, count, vectors(seen),
             shape.head_dim, false);
    if (shape.terms != nullptr) change_scores(scores, shape, r, count, computed);
    for (int64_t i = r; i < r + count; ++i) soften_row(tile, shape, i, computed, first);
    if (shape.terms != nullptr) drop(scores, shape, r, count, computed);
    multiply(tile.sum + r * shape.value_row, shape.value_row, scores, kTile, 1, tile.values, shape.value_row,
             count, shape.value_row / kLanes, seen, !first);
  });
}

void start_rows(const ForwardTile& tile, int64_t row) {
  __builtin_memset(tile.sum, 0, static_cast<size_t>(kTile * row) * sizeof(float));
  __builtin_memset(tile.totals, 0, static_cast<size_t>(kTile * kLanes) * sizeof(float));
  for (int64_t r = 0; r < kTile; ++r) tile.largest[r] = kLowest;
}

void finish_rows(const ForwardTile& tile, const TileShape& shape, bool may_see_none, float* lse) {
  float totals[kTile], inverses[kTile];
  for (int64_t r = 0; r < shape.queries; ++r) totals[r] = sum_lanes(load(tile.totals + r * kLanes));
  for_vectors(
      shape.queries, [&](int64_t r, auto part) __attribute__((always_inline)) {
        const V total = load(totals + r, part);
        V lse_of = load(tile.largest + r, part) + log(total), inverse = set1(1.f) / total;
        if (may_see_none) {
          const Mask saw_none = at_least(zero(), total);
          lse_of = select(saw_none, set1(-__builtin_inff()), lse_of);
          inverse = select(saw_none, zero(), inverse);
        }
        store(lse + r, lse_of, part);
        store(inverses + r, inverse, part);
      });
  for (int64_t r = 0; r < shape.queries; ++r) {
    float* sum = tile.sum + r * shape.value_row;
    const V inverse = set1(inverses[r]);
    for (int64_t i = 0; i < shape.value_row; i += kLanes) store(sum + i, load(sum + i) * inverse);
  }
}

void attend_backward(const BackwardTile& tile, const TileShape& shape) {
  const int64_t row = shape.row, width = row / kLanes;
  const int64_t value_row = shape.value_row, value_width = value_row / kLanes;
  if (shape.rows != nullptr)  // what no strip of queries computes, a strip of keys may read
    for (int64_t i = 0; i < shape.queries * kTile; i += kLanes) {
      store(tile.scores + i, zero());
      store(tile.d_scores + i, zero());
    }
  for_strips(shape, [&](int64_t r, int64_t count, int64_t seen) {
    float* scores = tile.scores + r * kTile;
    float* d_scores = tile.d_scores + r * kTile;
    multiply(scores, kTile, tile.q + r * row, row, 1, tile.keys_t, kTile, count, vectors(seen),
             shape.head_dim, false);
    multiply(d_scores, kTile, tile.d_out + r * value_row, value_row, 1, tile.values_t, kTile, count,
             vectors(seen), shape.value_dim, false);
    if (shape.terms != nullptr) soften_backward(tile, shape, r, count, vectors(seen) * kLanes);
    for (int64_t i = 0; shape.terms == nullptr && i < count; ++i) {
      const V lse = set1(tile.lse[r + i]), delta = set1(tile.delta[r + i]);
      float* p_row = scores + i * kTile;
      float* ds_row = d_scores + i * kTile;
      for_seen(
          shape, r + i, vectors(seen) * kLanes, [&](int64_t j, auto part) __attribute__((always_inline)) {
            const V p = keep(exp(load(p_row + j) - lse), part, zero());
            store(p_row + j, p);
            store(ds_row + j, keep(p * (load(ds_row + j) - delta), part, zero()));
          });
    }
    multiply(tile.dq + r * row, row, d_scores, kTile, 1, tile.keys, row, count, width, seen, true);
  });
  for_key_strips(shape, [&](int64_t first, int64_t count, int64_t query, int64_t queries) {
    const int64_t corner = query * kTile + first;
    multiply(tile.dv + first * value_row, value_row, tile.scores + corner, 1, kTile,
             tile.d_out + query * value_row, value_row, count, value_width, queries, true);
    multiply(tile.dk + first * row, row, tile.d_scores + corner, 1, kTile, tile.q + query * row, row, count,
             width, queries, true);
  });
}

}  // namespace athanor::kernels::ATHANOR_ISA
