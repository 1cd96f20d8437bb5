// Context parallelism by itself: which tokens a rank has, what attention over ranks computes, its gradients, and the
// bytes that it moves.
#include "athanor/parallel/context/context_parallel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "athanor/comm/shm/thread.h"
#include "athanor/ops/ops.h"
#include "support/engine.h"

namespace athanor::tests::context_parallel_test {
namespace {

constexpr ContextKind kKinds[] = {ContextKind::ring, ContextKind::ulysses};

struct Sizes {
  int64_t batch = 2, length = 23, heads = 4, kv_heads = 2, head_dim = 8;
  bool documents = false, masked = false;
};

// Another mask for each head of keys: the nearest 4 + 2 g tokens, and some of those before.
class GroupRule : public MaskRule {
 public:
  explicit GroupRule(int64_t group) : group_(group) {}
  uint64_t row(int64_t query, int64_t first_key) const override {
    uint64_t bits = 0;
    for (int64_t j = 0; j < 64; ++j) {
      const int64_t key = first_key + j;
      if (key <= query && (query - key < 4 + 2 * group_ || key % 5 == group_ % 5)) bits |= uint64_t{1} << j;
    }
    return bits;
  }

 private:
  int64_t group_;
};

LayerMask layer_mask(const Sizes& s) {
  return LayerMask([s](const MaskRequest& request) {
    std::vector<GroupRule> groups;
    for (int64_t group = 0; group < s.kv_heads; ++group) groups.emplace_back(group);
    std::vector<const MaskRule*> rules;
    for (const GroupRule& group : groups) rules.push_back(&group);
    std::vector<int32_t> of_head;
    for (int64_t head = request.first_head; head < request.first_head + request.heads; ++head)
      of_head.push_back(static_cast<int32_t>(head / (s.heads / s.kv_heads)));
    return make_mask(request.positions, rules, of_head);
  });
}

TEST(ContextTokens, EveryTokenHasOneRank) {
  for (const ContextKind kind : kKinds)
    for (const int ranks : {1, 2, 3, 4, 7})
      for (const int64_t length : {14, 15, 29, 64, 101}) {
        std::vector<int> found(static_cast<size_t>(length), 0);
        for (int rank = 0; rank < ranks; ++rank) {
          int64_t end = 0;
          for (const TokenRun& run : tokens_of_rank(kind, length, rank, ranks)) {
            EXPECT_GE(run.first, end);
            EXPECT_GT(run.count, 0);
            end = run.first + run.count;
            for (int64_t t = run.first; t < end; ++t) ++found[static_cast<size_t>(t)];
          }
        }
        EXPECT_EQ(std::count(found.begin(), found.end(), 1), length) << ranks << " ranks, " << length;
      }
}

// Pairs of a query and a key that a rank computes: but for a chunk's width the same on all.
TEST(ContextTokens, TheRingIsBalanced) {
  for (const int ranks : {2, 4, 8}) {
    constexpr int64_t kRingLength = 1024;
    std::vector<double> pairs;
    for (int rank = 0; rank < ranks; ++rank) {
      double sum = 0;
      for (const TokenRun& run : tokens_of_rank(ContextKind::ring, kRingLength, rank, ranks))
        for (int64_t t = run.first; t < run.first + run.count; ++t) sum += static_cast<double>(t + 1);
      pairs.push_back(sum);
    }
    for (const double each : pairs) EXPECT_EQ(each, pairs[0]) << ranks;
  }
}

TEST(ContextTokens, TooFewAreRefusedByName) {
  try {
    tokens_of_rank(ContextKind::ring, 5, 0, 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "context parallel: got sequences of 5 tokens, expected at least 6 for 3 ranks");
  }
  EXPECT_THROW(parse_context_kind("rings"), Error);
}

Tensor starts_of(Engine& engine, const Sizes& s) {
  Tensor starts = empty(engine.arena, {s.batch, s.length}, Dtype::i32, Category::activations);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t t = 0; t < s.length; ++t)
      starts.data<int32_t>()[b * s.length + t] = static_cast<int32_t>(t < 5 + b ? 0 : t < 17 ? 5 + b : 17);
  return starts;
}

// Rows [b, positions of the runs] of x [B,T,...].
Tensor own_rows(const Tensor& x, const std::vector<TokenRun>& runs) {
  const int64_t batch = x.dim(0), length = x.dim(1);
  Tensor own =
      empty(x.arena(), {batch, token_count(runs), x.dim(2), x.dim(3)}, x.dtype(), Category::activations);
  int64_t row = 0;
  for (int64_t b = 0; b < batch; ++b)
    for (const TokenRun& run : runs) {
      const Tensor from = x.view({batch * length, x.dim(2) * x.dim(3)})
                              .slice(b * length + run.first, b * length + run.first + run.count);
      Tensor to = own.view({own.dim(0) * own.dim(1), x.dim(2) * x.dim(3)}).slice(row, row + run.count);
      copy_from_host(to, from.raw(), from.size_bytes());
      row += run.count;
    }
  return own;
}

struct AttentionOutcome {
  std::vector<float> o, dq, dk, dv;
};
struct Inputs {
  Tensor q, k, v, dy;
};
Inputs inputs_of(Engine& engine, const Sizes& s, Dtype dtype) {
  const Shape q{s.batch, s.length, s.heads, s.head_dim}, k{s.batch, s.length, s.kv_heads, s.head_dim};
  return {engine.random(q, "q", 1.0f, dtype), engine.random(k, "k", 1.0f, dtype),
          engine.random(k, "v", 1.0f, dtype), engine.random(q, "dy", 1.0f, dtype)};
}

AttentionOutcome backward_of(Tape& tape, const Inputs& in, const HeadMasks& masks) {
  const Var q = tape.leaf(in.q), k = tape.leaf(in.k), v = tape.leaf(in.v);
  const Var o = attention(q, k, v, masks);
  tape.backward(o, in.dy);
  return {to_floats(o.value), to_floats(tape.grad(q)), to_floats(tape.grad(k)), to_floats(tape.grad(v))};
}

AttentionOutcome on_one(const Sizes& s, Dtype dtype) {
  Engine engine;
  Tape tape({.num_sequences = s.batch,
             .seq_len = s.length,
             .document_starts = s.documents ? starts_of(engine, s) : Tensor{},
             .record = true});
  const LayerMask mask = layer_mask(s);
  return backward_of(tape, inputs_of(engine, s, dtype), {s.masked ? &mask : nullptr});
}

// What rank r of an outcome over all tokens should have.
std::vector<float> rows_of(const std::vector<float>& all, const Sizes& s, int64_t heads,
                           const std::vector<TokenRun>& runs) {
  std::vector<float> own;
  const int64_t width = heads * s.head_dim;
  for (int64_t b = 0; b < s.batch; ++b)
    for (const TokenRun& run : runs) {
      const auto first = all.begin() + (b * s.length + run.first) * width;
      own.insert(own.end(), first, first + run.count * width);
    }
  return own;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double gap = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    gap += std::pow(static_cast<double>(got[i]) - static_cast<double>(expected[i]), 2);
    size += std::pow(static_cast<double>(expected[i]), 2);
  }
  EXPECT_LE(std::sqrt(gap), tolerance * std::sqrt(size)) << what;
}

// Bytes that the attention of one rank put on the wire: forward, backward.
using Bytes = std::vector<std::pair<int64_t, int64_t>>;

Bytes expect_same(ContextKind kind, int ranks, const Sizes& s, Dtype dtype = Dtype::f32) {
  const AttentionOutcome one = on_one(s, dtype);
  const double tolerance = dtype == Dtype::f32 ? 2e-6 : dtype == Dtype::bf16 ? 2e-2 : 2e-3;
  Bytes bytes(static_cast<size_t>(ranks));
  const auto groups = make_thread_groups(ranks);
  run_ranks(groups, [&](Group& group) {
    Engine engine;
    const ContextParallel context(kind, s.length, group);
    const std::string what = std::string(kind == ContextKind::ring ? "ring" : "ulysses") + " rank " +
                             std::to_string(group.rank()) + " of " + std::to_string(ranks);
    Tape tape({.num_sequences = s.batch,
               .seq_len = context.seq_len(),
               .part = &context.part(),
               .document_starts = s.documents ? starts_of(engine, s) : Tensor{},
               .record = true});
    Inputs in = inputs_of(engine, s, dtype);
    const auto& runs = context.part().runs;
    for (Tensor* x : {&in.q, &in.k, &in.v, &in.dy}) *x = own_rows(*x, runs);
    const Var q = tape.leaf(in.q), k = tape.leaf(in.k), v = tape.leaf(in.v);
    const LayerMask mask = layer_mask(s);
    const Var o = attention(q, k, v, {s.masked ? &mask : nullptr});
    const int64_t forward = group.traffic().total().bytes;
    tape.backward(o, in.dy);
    bytes[static_cast<size_t>(group.rank())] = {forward, group.traffic().total().bytes - forward};
    expect_near(to_floats(o.value), rows_of(one.o, s, s.heads, runs), tolerance, what + ": o");
    expect_near(to_floats(tape.grad(q)), rows_of(one.dq, s, s.heads, runs), tolerance, what + ": dq");
    expect_near(to_floats(tape.grad(k)), rows_of(one.dk, s, s.kv_heads, runs), tolerance, what + ": dk");
    expect_near(to_floats(tape.grad(v)), rows_of(one.dv, s, s.kv_heads, runs), tolerance, what + ": dv");
  });
  return bytes;
}

TEST(RingAttention, IsTheAttentionOfOneProcess) {
  for (const int ranks : {1, 2, 3, 4})
    for (const bool documents : {false, true})
      for (const int64_t length : {23, 24, 150}) {
        if (documents && length == 150) continue;
        expect_same(ContextKind::ring, ranks, {.length = length, .documents = documents});
      }
  expect_same(ContextKind::ring, 3, {.batch = 1, .length = 600, .heads = 2, .kv_heads = 1});
  expect_same(ContextKind::ring, 4, {.heads = 3, .kv_heads = 3});  // no number of heads that divides
  for (const int64_t length : {24, 150, 601})
    expect_same(ContextKind::ring, 3, {.length = length, .masked = true});
  expect_same(ContextKind::ring, 2, {.documents = true, .masked = true});
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16})
    expect_same(ContextKind::ring, 3, {.documents = true}, dtype);
}

TEST(UlyssesAttention, IsTheAttentionOfOneProcess) {
  for (const int ranks : {1, 2, 4})
    for (const bool documents : {false, true})
      for (const int64_t kv_heads : {1, 2, 4})
        expect_same(ContextKind::ulysses, ranks, {.kv_heads = kv_heads, .documents = documents});
  expect_same(ContextKind::ulysses, 3, {.length = 31, .heads = 6, .kv_heads = 3});
  for (const int64_t kv_heads : {1, 2, 4})
    expect_same(ContextKind::ulysses, 4, {.kv_heads = kv_heads, .documents = true, .masked = true});
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16})
    expect_same(ContextKind::ulysses, 4, {.documents = true}, dtype);
}

TEST(UlyssesAttention, HeadsThatDoNotDivideAreRefusedByName) {
  const auto groups = make_thread_groups(2);
  run_ranks(groups, [&](Group& group) {
    Engine engine;
    const ContextParallel context(ContextKind::ulysses, 4, group);
    Tape tape({.num_sequences = 1, .seq_len = 2, .part = &context.part()});
    const Var q = tape.constant(engine.random({1, 2, 6, 4}, "q"));
    const Var k = tape.constant(engine.random({1, 2, 3, 4}, "k"));
    try {
      attention(q, k, k);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(),
                   "ulysses: got 6 heads and 3 of keys and values for 2 ranks, expected numbers that divide");
    }
  });
}

// The formulas of ring_attention.h and ulysses_attention.h: what a rank sends forward and backward.
Bytes::value_type ring_bytes(const Sizes& s, int rank, int ranks, int64_t element) {
  if (ranks == 1) return {0, 0};
  const int64_t others =
      s.length - token_count(tokens_of_rank(ContextKind::ring, s.length, (rank + 1) % ranks, ranks));
  const int64_t token = 2 * s.batch * s.kv_heads * s.head_dim;
  return {token * element * others, token * (element * others + 4 * s.length)};
}
Bytes::value_type ulysses_bytes(const Sizes& s, int rank, int ranks, int64_t element) {
  const int64_t own = token_count(tokens_of_rank(ContextKind::ulysses, s.length, rank, ranks));
  const int64_t h = s.heads / ranks, inputs = h + 2 * std::max<int64_t>(s.kv_heads / ranks, 1);
  const int64_t each = s.batch * s.head_dim * element, given = (ranks - 1) * own, taken = s.length - own;
  return {each * (given * inputs + taken * h), each * (taken * inputs + given * h)};
}

TEST(ContextTraffic, IsWhatTheFormulasSay) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
    for (const int ranks : {1, 2, 4})
      for (const int64_t length : {23, 32})
        for (const int64_t kv_heads : {2, 4}) {
          const Sizes s{.length = length, .kv_heads = kv_heads};
          const auto element = static_cast<int64_t>(size_of(dtype));
          const Bytes ring = expect_same(ContextKind::ring, ranks, s, dtype);
          const Bytes ulysses = expect_same(ContextKind::ulysses, ranks, s, dtype);
          for (int rank = 0; rank < ranks; ++rank) {
            const auto at = static_cast<size_t>(rank);
            EXPECT_EQ(ring[at], ring_bytes(s, rank, ranks, element)) << rank << " of " << ranks;
            EXPECT_EQ(ulysses[at], ulysses_bytes(s, rank, ranks, element)) << rank << " of " << ranks;
          }
        }
}

// What a layer of experts asks of the ranks that share sequences; the bytes are those that docs/moe.md says.
TEST(ContextValues, OfAllTokensComeInTheOrderOfTheSequences) {
  const int64_t batch = 3, length = 23, width = 2;
  std::vector<int32_t> all(static_cast<size_t>(batch * length * width));
  std::iota(all.begin(), all.end(), 0);
  for (const ContextKind kind : kKinds)
    for (const int ranks : {1, 2, 4, 5}) {
      int64_t most = 0;
      for (int rank = 0; rank < ranks; ++rank)
        most = std::max(most, token_count(tokens_of_rank(kind, length, rank, ranks)));
      const auto groups = make_thread_groups(ranks);
      run_ranks(groups, [&](Group& group) {
        const ContextParallel context(kind, length, group);
        EXPECT_EQ(context.part().most, most);
        std::vector<int32_t> own(static_cast<size_t>(batch * context.seq_len() * width));
        auto next = own.begin();
        for (int64_t b = 0; b < batch; ++b)
          for (const TokenRun& run : context.part().runs)
            next = std::copy_n(all.begin() + (b * length + run.first) * width, run.count * width, next);
        EXPECT_EQ(context.part().of_all(own, batch), all) << ranks << " ranks";
        EXPECT_EQ(group.traffic().total().bytes, (ranks - 1) * batch * most * width * 4) << ranks << " ranks";
      });
    }
}

}  // namespace
}  // namespace athanor::tests::context_parallel_test
