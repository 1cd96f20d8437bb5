#include <algorithm>
#include <cmath>

#include "kernels/attention_values.h"
#include "support/tiers.h"

namespace athanor::tests::attention_test {
namespace {

using AttentionTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, AttentionTest,
                         testing::Values(Isa::generic, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx),
                         isa_test_name);

struct AttentionSize {
  int64_t batch, queries, keys, heads, kv_heads, head_dim;
  Shape q() const { return {batch, queries, heads, head_dim}; }
  Shape k() const { return {batch, keys, kv_heads, head_dim}; }
  Shape lse() const { return {batch, heads, queries}; }
};

std::string str(const AttentionSize& s) {
  return fmt::format("B {} T {} S {} H {} K {} D {}", s.batch, s.queries, s.keys, s.heads, s.kv_heads,
                     s.head_dim);
}

AttentionInputs attention_inputs(const AttentionSize& s, Dtype dtype, double deviation = 1) {
  return {random_values(s.q().numel(), dtype, 1, deviation),
          random_values(s.k().numel(), dtype, 2, deviation), random_values(s.k().numel(), dtype, 3),
          random_values(s.q().numel(), dtype, 4)};
}

// The textbook: whole rows of probabilities, in double. Gradients too where S == T.
AttentionResults expected_attention(const AttentionInputs& in, const AttentionSize& s, double scale) {
  AttentionResults r{Values(in.q.size()), Values(static_cast<size_t>(s.lse().numel())), Values(in.q.size()),
                     Values(in.k.size()), Values(in.k.size())};
  const auto q_at = [&](int64_t b, int64_t t, int64_t h) {
    return static_cast<size_t>(((b * s.queries + t) * s.heads + h) * s.head_dim);
  };
  const auto k_at = [&](int64_t b, int64_t j, int64_t h) {
    return static_cast<size_t>(((b * s.keys + j) * s.kv_heads + h / (s.heads / s.kv_heads)) * s.head_dim);
  };
  const auto width = static_cast<size_t>(s.head_dim);
  const auto dot = [&](const Values& a, size_t i, const Values& b, size_t j) {
    double sum = 0;
    for (size_t d = 0; d < width; ++d) sum += a[i + d] * b[j + d];
    return sum;
  };
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t t = 0; t < s.queries; ++t) {
        const size_t row = q_at(b, t, h);
        const int64_t visible = t + 1 + s.keys - s.queries;
        Values p;
        double largest = -HUGE_VAL, total = 0;
        for (int64_t j = 0; j < visible; ++j) {
          p.push_back(scale * dot(in.q, row, in.k, k_at(b, j, h)));
          largest = std::max(largest, p.back());
        }
        for (double& score : p) total += score = std::exp(score - largest);
        r.lse[static_cast<size_t>((b * s.heads + h) * s.queries + t)] = largest + std::log(total);
        for (int64_t j = 0; j < visible; ++j)
          for (size_t d = 0; d < width; ++d)
            r.o[row + d] += p[static_cast<size_t>(j)] / total * in.v[k_at(b, j, h) + d];
        const double delta = dot(in.d_o, row, r.o, row);
        for (int64_t j = 0; j < visible; ++j) {
          const double weight = p[static_cast<size_t>(j)] / total;
          const size_t key = k_at(b, j, h);
          const double ds = weight * (dot(in.d_o, row, in.v, key) - delta);
          for (size_t d = 0; d < width; ++d) {
            r.dv[key + d] += weight * in.d_o[row + d];
            r.dq[row + d] += scale * ds * in.k[key + d];
            r.dk[key + d] += scale * ds * in.q[row + d];
          }
        }
      }
  return r;
}

void expect_attention_matches(Isa isa, const AttentionSize& s, Dtype dtype, double deviation = 1) {
  SCOPED_TRACE(fmt::format("{} {}", name_of(dtype), str(s)));
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_dim)));
  const AttentionInputs in = attention_inputs(s, dtype, deviation);
  const bool backward = s.keys == s.queries;
  const auto got = run(isa, [&](Bench& bench) {
    const Tensor q = bench.input(in.q, s.q(), dtype), k = bench.input(in.k, s.k(), dtype);
    const Tensor v = bench.input(in.v, s.k(), dtype);
    Tensor o = bench.output(s.q(), dtype), lse = bench.output(s.lse(), Dtype::f32);
    bench.kernels().attention.forward(bench.queue(), o, lse, q, k, v, scale, {});
    if (!backward) return std::vector{o, lse};
    Tensor dq = bench.output(s.q(), dtype), dk = bench.output(s.k(), dtype), dv = bench.output(s.k(), dtype);
    bench.kernels().attention.backward(bench.queue(), dq, dk, dv, bench.input(in.d_o, s.q(), dtype), o, lse,
                                       q, k, v, scale, {});
    return std::vector{o, lse, dq, dk, dv};
  });
  const AttentionResults expected = expected_attention(in, s, scale);
  expect_close(got[0], expected.o, 1.5 * tolerance(dtype));
  expect_close(got[1], expected.lse, 2e-6 * deviation);
  if (!backward) return;
  // One key leaves nothing to choose: dq and dk are zero up to what cancels.
  if (s.keys > 1) expect_close(got[2], expected.dq, attention_gradient_tolerance(dtype));
  if (s.keys > 1) expect_close(got[3], expected.dk, attention_gradient_tolerance(dtype));
  expect_close(got[4], expected.dv, attention_gradient_tolerance(dtype));
}

TEST_P(AttentionTest, Lengths) {
  for (const Dtype dtype : kElementTypes)
    for (const int64_t length : {0, 1, 2, 3, 17, 31, 32, 33, 63, 64, 65, 127, 129})
      expect_attention_matches(GetParam(), {1, length, length, 2, 1, 16}, dtype);
}

TEST_P(AttentionTest, HeadDims) {
  for (const Dtype dtype : kElementTypes)
    for (const int64_t head_dim : {1, 8, 12, 16, 20, 32, 33, 40, 48, 64, 80, 96, 128})
      expect_attention_matches(GetParam(), {2, 35, 35, 2, 2, head_dim}, dtype);
}

TEST_P(AttentionTest, Groups) {
  for (const Dtype dtype : kElementTypes)
    for (const auto& [heads, kv_heads] :
         {std::pair{1, 1}, {5, 5}, {4, 2}, {6, 2}, {4, 1}, {5, 1}, {6, 1}, {7, 1}, {16, 2}})
      expect_attention_matches(GetParam(), {2, 19, 19, heads, kv_heads, 24}, dtype);
}

// As with a KV cache: the queries are the last of the positions.
TEST_P(AttentionTest, MoreKeysThanQueries) {
  for (const Dtype dtype : kElementTypes)
    for (const auto& [queries, keys] :
         {std::pair{1, 2}, {1, 65}, {1, 200}, {3, 17}, {17, 64}, {33, 64}, {66, 131}, {40, 333}, {0, 5}})
      expect_attention_matches(GetParam(), {2, queries, keys, 4, 2, 64}, dtype);
}

TEST_P(AttentionTest, SeveralTilesOfALongSequence) {
  for (const Dtype dtype : kElementTypes)
    expect_attention_matches(GetParam(), {1, 210, 210, 2, 1, 32}, dtype);
}

// Blocks of 256 positions take turns in the backward pass: all orders of one to five of them, whole and not.
TEST_P(AttentionTest, SeveralBlocks) {
  for (const int64_t length : {256, 257, 600, 1030})
    expect_attention_matches(GetParam(), {1, length, length, 1, 1, 8}, Dtype::f32);
  for (const Dtype dtype : kElementTypes)
    expect_attention_matches(GetParam(), {1, 300, 300, 4, 2, 40}, dtype);
}

// More heads than are held at a time.
TEST_P(AttentionTest, SeveralWaves) {
  expect_attention_matches(GetParam(), {5, 30, 30, 14, 14, 16}, Dtype::f32);
  expect_attention_matches(GetParam(), {3, 30, 30, 24, 3, 16}, Dtype::f32);
  expect_attention_matches(GetParam(), {9, 260, 260, 8, 4, 4}, Dtype::f32);
}

// What rounding to bf16 adds up to over a long sequence.
TEST_P(AttentionTest, ALongSequence) {
  expect_attention_matches(GetParam(), {1, 2048, 2048, 1, 1, 32}, Dtype::bf16);
}

// Keys in descending order of their scores and in ascending order: the largest score never moves, or with
// every tile.
TEST_P(AttentionTest, RisingAndFallingScores) {
  const AttentionSize s{1, 300, 300, 1, 1, 32};
  for (const Dtype dtype : kElementTypes)
    for (const double slope : {-0.25, 0.25, 2.0}) {
      SCOPED_TRACE(fmt::format("{} slope {}", name_of(dtype), slope));
      AttentionInputs in = attention_inputs(s, dtype);
      for (int64_t t = 0; t < s.keys; ++t) {
        in.q[static_cast<size_t>(t * s.head_dim)] = 1;
        in.k[static_cast<size_t>(t * s.head_dim)] = round_to(slope * static_cast<double>(t), dtype);
      }
      const auto got = run(GetParam(), [&](Bench& bench) {
        Tensor o = bench.output(s.q(), dtype), lse = bench.output(s.lse(), Dtype::f32);
        bench.kernels().attention.forward(bench.queue(), o, lse, bench.input(in.q, s.q(), dtype),
                                          bench.input(in.k, s.k(), dtype), bench.input(in.v, s.k(), dtype), 1,
                                          {});
        return std::vector{o, lse};
      });
      const AttentionResults expected = expected_attention(in, s, 1);
      // Scores of 600 are rounded by 3e-5.
      expect_close(got[0], expected.o, std::max(1e-4, 1.5 * tolerance(dtype)));
      expect_close(got[1], expected.lse, 1e-6);
    }
}

TEST_P(AttentionTest, NegativeScale) {
  const AttentionSize s{1, 70, 70, 1, 1, 32};
  for (const Dtype dtype : kElementTypes) {
    AttentionInputs in = attention_inputs(s, dtype);
    const auto got = run(GetParam(), [&](Bench& bench) {
      Tensor o = bench.output(s.q(), dtype), lse = bench.output(s.lse(), Dtype::f32);
      bench.kernels().attention.forward(bench.queue(), o, lse, bench.input(in.q, s.q(), dtype),
                                        bench.input(in.k, s.k(), dtype), bench.input(in.v, s.k(), dtype),
                                        -0.7f, {});
      return std::vector{o, lse};
    });
    const AttentionResults expected = expected_attention(in, s, -0.7f);
    expect_close(got[0], expected.o, 1.5 * tolerance(dtype));
    expect_close(got[1], expected.lse, 2e-6);
  }
}

// A sequence gets the same bits alone and among others, though work is then cut differently.
TEST_P(AttentionTest, BatchesDoNotMatter) {
  if (device_is_emulated()) LEAVE_OUT_UNDER(address_sanitizer, "on the emulated device it takes minutes");
  const AttentionSize one{1, 270, 270, 2, 1, 16}, many{40, 270, 270, 2, 1, 16};
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    const AttentionInputs in = attention_inputs(many, dtype);
    const auto outputs = [&](const AttentionSize& s, int64_t sequence) {
      const auto part = [&](const Values& values, const Shape& shape) {
        const auto first = values.begin() + sequence * shape.numel();
        return Values(first, first + shape.numel());
      };
      Bench bench(GetParam(), 2);
      const float scale = 0.25f;
      const Tensor q = bench.input(part(in.q, s.q()), s.q(), dtype);
      const Tensor k = bench.input(part(in.k, s.k()), s.k(), dtype);
      const Tensor v = bench.input(part(in.v, s.k()), s.k(), dtype);
      const Tensor d_o = bench.input(part(in.d_o, s.q()), s.q(), dtype);
      Tensor o = bench.output(s.q(), dtype), lse = bench.output(s.lse(), Dtype::f32);
      Tensor dq = bench.output(s.q(), dtype), dk = bench.output(s.k(), dtype),
             dv = bench.output(s.k(), dtype);
      bench.kernels().attention.forward(bench.queue(), o, lse, q, k, v, scale, {});
      bench.kernels().attention.backward(bench.queue(), dq, dk, dv, d_o, o, lse, q, k, v, scale, {});
      return std::vector{values_of(o), values_of(lse), values_of(dq), values_of(dk), values_of(dv)};
    };
    const auto all = outputs(many, 0);
    for (const int64_t sequence : {0, 17, 39}) {
      const auto alone = outputs(one, sequence);
      for (size_t i = 0; i < all.size(); ++i) {
        const auto size = static_cast<int64_t>(alone[i].size());
        EXPECT_TRUE(std::equal(alone[i].begin(), alone[i].end(), all[i].begin() + sequence * size))
            << "result " << i << " of sequence " << sequence << ", " << name_of(dtype);
      }
    }
  }
}

// Large scores: the softmax is nearly one-hot and its largest score moves from tile to tile.
TEST_P(AttentionTest, LargeScores) {
  for (const int64_t length : {17, 150}) {
    const AttentionSize s{1, length, length, 2, 2, 32};
    const auto scale = static_cast<float>(1 / std::sqrt(32.0));
    const AttentionInputs in = attention_inputs(s, Dtype::f32, 12);
    const auto got = run(GetParam(), [&](Bench& bench) {
      Tensor o = bench.output(s.q(), Dtype::f32), lse = bench.output(s.lse(), Dtype::f32);
      bench.kernels().attention.forward(bench.queue(), o, lse, bench.input(in.q, s.q(), Dtype::f32),
                                        bench.input(in.k, s.k(), Dtype::f32),
                                        bench.input(in.v, s.k(), Dtype::f32), scale, {});
      return std::vector{o, lse};
    });
    const AttentionResults expected = expected_attention(in, s, scale);
    expect_close(got[0], expected.o, 1e-4);  // an error of 1e-7 in a score of 1000 is 1e-4 in its exponential
    expect_close(got[1], expected.lse, 1e-6);
  }
}

// What a query may not see must not touch its bits, however large it is.
TEST_P(AttentionTest, TheFutureIsInvisible) {
  const AttentionSize s{1, 70, 70, 2, 1, 32};
  for (const Dtype dtype : kElementTypes)
    for (const int64_t changed : {1, 16, 64, 69}) {
      SCOPED_TRACE(fmt::format("{} from {}", name_of(dtype), changed));
      const AttentionInputs in = attention_inputs(s, dtype);
      AttentionInputs other = in;
      for (size_t i = static_cast<size_t>(changed * s.head_dim); i < in.k.size(); ++i)
        other.k[i] = other.v[i] = round_to(i % 2 == 0 ? 3e4 : -2e4, dtype);
      const auto outputs = [&](const AttentionInputs& inputs) {
        return run(GetParam(), [&](Bench& bench) {
          Tensor o = bench.output(s.q(), dtype), lse = bench.output(s.lse(), Dtype::f32);
          bench.kernels().attention.forward(bench.queue(), o, lse, bench.input(inputs.q, s.q(), dtype),
                                            bench.input(inputs.k, s.k(), dtype),
                                            bench.input(inputs.v, s.k(), dtype), 0.2f, {});
          return std::vector{o};
        })[0];
      };
      const Values before = outputs(in), after = outputs(other);
      const auto row = s.heads * s.head_dim, unchanged = changed * row;
      EXPECT_TRUE(std::equal(before.begin(), before.begin() + unchanged, after.begin()));
      EXPECT_FALSE(std::equal(before.begin() + unchanged, before.begin() + unchanged + row,
                              after.begin() + unchanged));
    }
}

// Not even where it is not finite: that is seen by those, and only those, that see its key.
TEST_P(AttentionTest, TheFutureIsInvisibleEvenIfNotFinite) {
  const AttentionSize s{1, 70, 75, 2, 1, 40};
  for (const Dtype dtype : kElementTypes)
    for (const int64_t changed : {6, 37, 38, 63, 64, 70, 74})
      for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL})
        for (const bool in_key : {false, true}) {
          SCOPED_TRACE(
              fmt::format("{} {} of key {} is {}", name_of(dtype), in_key ? "k" : "v", changed, value));
          const AttentionInputs in = attention_inputs(s, dtype);
          AttentionInputs other = in;
          (in_key ? other.k : other.v)[static_cast<size_t>(changed * s.head_dim + 3)] = value;
          const auto outputs = [&](const AttentionInputs& inputs) {
            Bench bench(GetParam(), 1);
            Tensor o = bench.output(s.q(), dtype), lse = bench.output(s.lse(), Dtype::f32);
            bench.kernels().attention.forward(bench.queue(), o, lse, bench.input(inputs.q, s.q(), dtype),
                                              bench.input(inputs.k, s.k(), dtype),
                                              bench.input(inputs.v, s.k(), dtype), 0.2f, {});
            return std::pair{values_of(o), values_of(lse)};
          };
          const auto [before, lse_before] = outputs(in);
          const auto [after, lse_after] = outputs(other);
          const int64_t first_to_see = changed - (s.keys - s.queries), row = s.heads * s.head_dim;
          EXPECT_TRUE(std::equal(before.begin(), before.begin() + first_to_see * row, after.begin()));
          for (int64_t head = 0; head < s.heads; ++head)
            EXPECT_TRUE(std::equal(lse_before.begin() + head * s.queries,
                                   lse_before.begin() + head * s.queries + first_to_see,
                                   lse_after.begin() + head * s.queries));
          // A key at minus infinity is one that counts nothing.
          for (int64_t t = first_to_see; t < s.queries && !in_key; ++t)
            for (int64_t head = 0; head < s.heads; ++head)
              EXPECT_FALSE(std::isfinite(after[static_cast<size_t>(t * row + head * s.head_dim + 3)])) << t;
          if (in_key && std::isnan(value)) {
            EXPECT_TRUE(std::isnan(after.back()));
          }
        }
}

// A step whose numbers have overflowed must show it, in the output and in every gradient.
TEST_P(AttentionTest, NotFiniteStaysNotFinite) {
  const AttentionSize s{1, 20, 20, 2, 1, 16};
  for (const Dtype dtype : kElementTypes) {
    AttentionInputs in = attention_inputs(s, dtype);
    in.q[5] = std::nan("");
    const auto got = run(GetParam(), [&](Bench& bench) {
      const Tensor q = bench.input(in.q, s.q(), dtype), k = bench.input(in.k, s.k(), dtype);
      const Tensor v = bench.input(in.v, s.k(), dtype), d_o = bench.input(in.d_o, s.q(), dtype);
      Tensor o = bench.output(s.q(), dtype), lse = bench.output(s.lse(), Dtype::f32);
      Tensor dq = bench.output(s.q(), dtype), dk = bench.output(s.k(), dtype),
             dv = bench.output(s.k(), dtype);
      bench.kernels().attention.forward(bench.queue(), o, lse, q, k, v, 0.25f, {});
      bench.kernels().attention.backward(bench.queue(), dq, dk, dv, d_o, o, lse, q, k, v, 0.25f, {});
      return std::vector{o, lse, dq, dk, dv};
    });
    for (const Values& values : got) EXPECT_FALSE(std::isfinite(values[0])) << name_of(dtype);
  }
}

// Workspace is linear in the length, and the backward pass holds no more heads than keep threads busy.
TEST_P(AttentionTest, WorkspaceIsSmall) {
  const auto workspace_of = [&](const AttentionSize& s) {
    const auto queue = make_null_queue(GetParam());
    Arena arena(*queue);
    const auto tensor = [&](const Shape& shape, Dtype dtype) {
      return empty(arena, shape, dtype, Category::activations);
    };
    const Tensor q = tensor(s.q(), Dtype::bf16), k = tensor(s.k(), Dtype::bf16);
    Tensor o = tensor(s.q(), Dtype::bf16), lse = tensor(s.lse(), Dtype::f32);
    Tensor dk = tensor(s.k(), Dtype::bf16), dv = tensor(s.k(), Dtype::bf16);
    kernels_of(q).attention.forward(*queue, o, lse, q, k, k, 1, {});
    const uint64_t forward = arena.usage().peak[static_cast<size_t>(Category::workspace)];
    Tensor dq = tensor(s.q(), Dtype::bf16);
    kernels_of(q).attention.backward(*queue, dq, dk, dv, o, o, lse, q, k, k, 1, {});
    return std::pair{forward, arena.usage().peak[static_cast<size_t>(Category::workspace)]};
  };
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  EXPECT_LT(workspace_of({1, 8192, 8192, 32, 8, 128}).first, 24 * kMiB);
  EXPECT_LT(workspace_of({1, 8192, 8192, 32, 8, 128}).second, 100 * kMiB);
  EXPECT_LT(workspace_of({4, 2048, 2048, 12, 12, 64}).second, 50 * kMiB);
  EXPECT_LT(workspace_of({512, 256, 256, 12, 12, 64}).second, 50 * kMiB);
  // A longer forward pass needs no more.
  EXPECT_EQ(workspace_of({1, 4096, 4096, 32, 8, 128}).first,
            workspace_of({1, 16384, 16384, 32, 8, 128}).first);
}

}  // namespace
}  // namespace athanor::tests::attention_test
