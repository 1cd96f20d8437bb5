// Attention with terms of its scores: against the textbook in double, and what must change no bit.
#include <cmath>
#include <limits>

#include "athanor/base/philox.h"

#include "kernels/attention_values.h"

namespace athanor::tests::attention_scores_test {
namespace {

using AttentionScoresTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, AttentionScoresTest, row_isas(), isa_test_name);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Problem {
  AttentionShape shape = {};
  bool causal = true;
  float scale = 0.4f, softcap = 0;
  Values bias = {};                     // [H, buckets]
  std::vector<int32_t> bucket_of = {};  // by distance; none: bias is a table by distance
  Values sinks = {};
  AttentionDropout dropout = {};
  MaskPositions positions = {};
  PlainRule::Sees sees = {};

  int64_t buckets() const { return std::ssize(bias) / shape.heads; }
  int64_t position(const std::vector<PositionRun>& runs, int64_t row, int64_t first) const {
    if (runs.empty()) return first + row;
    for (const PositionRun& run : runs) {
      if (row < run.count) return run.first + row;
      row -= run.count;
    }
    return -1;
  }
  int64_t query_at(int64_t t) const {
    return position(positions.queries, t, causal ? shape.keys - shape.queries : 0);
  }
  int64_t key_at(int64_t s) const { return position(positions.keys, s, 0); }
  bool sees_pair(int64_t t, int64_t s) const {
    return (!causal || s <= t + shape.keys - shape.queries) && (!sees || sees(t, s));
  }
  bool has_backward() const { return !causal || shape.queries == shape.keys; }

  TextbookScores textbook() const {
    TextbookScores terms{.softcap = softcap, .bias = bias, .sinks = sinks};
    terms.bucket = [this](int64_t h, int64_t t, int64_t s) {
      const int64_t distance = key_at(s) - query_at(t);
      const int64_t reach = (bucket_of.empty() ? buckets() : std::ssize(bucket_of)) / 2;
      const int64_t bucket =
          bucket_of.empty() ? distance + reach : bucket_of[static_cast<size_t>(distance + reach)];
      return static_cast<size_t>(h * buckets() + bucket);
    };
    if (dropout.rate > 0)
      terms.keep = [this](int64_t b, int64_t h, int64_t t, int64_t s) {
        const AttentionDropout& d = dropout;
        const int64_t head = (d.first_sequence + b) * d.heads + d.first_head + h;
        const int64_t element = (head * d.whole_queries + query_at(t)) * d.whole_keys + key_at(s);
        return RandomStream(d.key).uniform(static_cast<uint64_t>(element), d.step) >= d.rate
                   ? 1 / (1 - double{d.rate})
                   : 0;
      };
    return terms;
  }
};

// o, lse, dq, dk, dv, d_bias, d_sinks. Gradients are added to ones.
std::vector<Tensor> attend(Bench& bench, const Problem& p, const AttentionInputs& in, Dtype dtype,
                           bool with_scores = true) {
  const AttentionShape& s = p.shape;
  const Tensor q = bench.input(in.q, s.q(), dtype), k = bench.input(in.k, s.k(), dtype);
  const Tensor v = bench.input(in.v, s.v(), dtype), d_o = bench.input(in.d_o, s.o(), dtype);
  Tensor o = bench.output(s.o(), dtype), lse = bench.output(s.lse(), Dtype::f32);
  Tensor dq = bench.output(s.q(), dtype), dk = bench.output(s.k(), dtype), dv = bench.output(s.v(), dtype);
  AttentionScores scores{.softcap = p.softcap, .dropout = p.dropout, .positions = p.positions};
  Tensor bias, bucket_of, d_bias, sinks, d_sinks;
  if (!p.bias.empty()) {
    bias = bench.input(p.bias, {s.heads, p.buckets()}, Dtype::f32);
    d_bias = bench.output(Values(p.bias.size(), 1), bias.shape(), Dtype::f32);
    scores.bias = &bias;
    scores.d_bias = &d_bias;
    if (!p.bucket_of.empty()) {
      bucket_of = bench.ids(p.bucket_of, Shape{std::ssize(p.bucket_of)});
      scores.bucket_of = &bucket_of;
    }
  }
  AttentionMask mask;
  AttentionPart part{.causal = p.causal, .scores = with_scores ? &scores : nullptr};
  if (p.sees) {
    const PlainRule rule(p.sees);
    mask = make_mask({.queries = {{0, s.queries}}, .keys = {{0, s.keys}}}, {&rule},
                     std::vector<int32_t>(static_cast<size_t>(s.heads), 0));
    part.mask = &mask;
  }
  const AttentionKernels& kernels = bench.kernels().attention;
  kernels.forward(bench.queue(), o, lse, q, k, v, p.scale, part);
  if (!p.sinks.empty()) {
    sinks = bench.input(p.sinks, Shape{s.heads}, Dtype::f32);
    d_sinks = bench.output(Values(p.sinks.size(), 1), sinks.shape(), Dtype::f32);
    kernels.add_sinks(bench.queue(), o, lse, sinks);
  }
  std::vector<Tensor> results{o, lse};
  if (!p.has_backward()) return results;
  kernels.backward(bench.queue(), dq, dk, dv, d_o, o, lse, q, k, v, p.scale, part);
  if (!p.sinks.empty()) kernels.sinks_backward(bench.queue(), d_sinks, d_o, o, lse, sinks);
  results.insert(results.end(), {dq, dk, dv});
  for (const Tensor& x : {d_bias, d_sinks})
    if (x.defined()) results.push_back(x);
  return results;
}

Values minus_one(Values x) {
  for (double& value : x) value -= 1;
  return x;
}

void expect_textbook(Isa isa, const Problem& p, Dtype dtype) {
  SCOPED_TRACE(fmt::format("{} T {} S {} H {} K {} D {} E {}{}", name_of(dtype), p.shape.queries,
                           p.shape.keys, p.shape.heads, p.shape.kv_heads, p.shape.head_dim, p.shape.values(),
                           p.causal ? ", causal" : ""));
  const AttentionInputs in = attention_inputs(p.shape, dtype);
  const auto got = run(isa, [&](Bench& bench) { return attend(bench, p, in, dtype); });
  const AttentionResults expected = attention_textbook(
      p.shape, in, double{p.scale}, [&](int64_t, int64_t, int64_t t, int64_t s) { return p.sees_pair(t, s); },
      p.textbook());
  // A sink rounds o a second time.
  expect_close(got[0], expected.o, (p.sinks.empty() ? 1.5 : 2.5) * tolerance(dtype));
  expect_lse(got[1], expected.lse);
  if (!p.has_backward()) return;
  const double near = attention_gradient_tolerance(dtype);
  expect_close(got[2], expected.dq, near);
  expect_close(got[3], expected.dk, near);
  expect_close(got[4], expected.dv, near);
  if (!p.bias.empty()) expect_close(minus_one(got[5]), expected.d_bias, 2 * near);
  if (!p.sinks.empty()) expect_close(minus_one(got[p.bias.empty() ? 5 : 6]), expected.d_sinks, 2 * near);
}

// Distances to n - 1 in `buckets` of each sign.
std::vector<int32_t> buckets_of(int64_t n, int64_t buckets) {
  std::vector<int32_t> of;
  for (int64_t d = 1 - n; d < n; ++d)
    of.push_back(static_cast<int32_t>(std::min(std::abs(d) / 3, buckets - 1) + (d > 0 ? buckets : 0)));
  return of;
}

TEST_P(AttentionScoresTest, BiasByBuckets) {
  for (const Dtype dtype : kElementTypes)
    for (const int64_t length : {5, 64, 300})
      for (const bool causal : {true, false}) {
        Problem p{.shape = {2, length, length, 4, 2, 16}, .causal = causal, .scale = 1};
        p.bias = random_values(4 * 12, Dtype::f32, 7);
        p.bucket_of = buckets_of(length, 6);
        expect_textbook(GetParam(), p, dtype);
      }
}

TEST_P(AttentionScoresTest, BiasByDistanceAndOtherPositions) {
  for (const Dtype dtype : kElementTypes) {
    Problem p{.shape = {2, 70, 70, 2, 2, 8}, .causal = false};
    p.bias = random_values(2 * (2 * 200 - 1), Dtype::f32, 8);
    p.positions = {.queries = {{10, 30}, {150, 40}}, .keys = {{0, 65}, {180, 5}}};
    expect_textbook(GetParam(), p, dtype);
    Problem cached{.shape = {1, 3, 90, 2, 1, 8}, .bias = random_values(2 * 179, Dtype::f32, 9)};
    expect_textbook(GetParam(), cached, dtype);
  }
}

TEST_P(AttentionScoresTest, Softcap) {
  for (const Dtype dtype : kElementTypes)
    for (const float softcap : {0.7f, 5.0f, 50.0f}) {
      Problem p{.shape = {2, 130, 130, 4, 1, 24}, .scale = 2, .softcap = softcap};
      expect_textbook(GetParam(), p, dtype);
      p.bias = random_values(4 * 12, Dtype::f32, 7);
      p.bucket_of = buckets_of(130, 6);
      expect_textbook(GetParam(), p, dtype);
    }
}

TEST_P(AttentionScoresTest, Sinks) {
  for (const Dtype dtype : kElementTypes)
    for (const bool with_softcap : {false, true}) {
      Problem p{.shape = {2, 90, 90, 4, 2, 16}, .softcap = with_softcap ? 3.0f : 0.0f};
      p.sinks = {0.5, 6, -3, -200};
      expect_textbook(GetParam(), p, dtype);
      p.sees = [](int64_t t, int64_t s) { return t % 7 != 3 && s <= t; };  // some queries without keys
      expect_textbook(GetParam(), p, dtype);
    }
}

TEST_P(AttentionScoresTest, ValuesOfAnotherWidth) {
  for (const Dtype dtype : kElementTypes)
    for (const auto& [width, values] : {std::pair<int64_t, int64_t>{24, 16}, {192, 128}, {9, 40}}) {
      Problem p{.shape = {2, 140, 140, 4, 2, width, values}, .scale = 0.2f};
      expect_textbook(GetParam(), p, dtype);
      p.causal = false;
      p.shape.queries = 33;
      expect_textbook(GetParam(), p, dtype);
    }
  Problem many{.shape = {2, 300, 300, 32, 16, 12, 4}};  // a backward pass by heads
  many.bias = random_values(32 * 599, Dtype::f32, 3);
  expect_textbook(GetParam(), many, Dtype::f32);
}

TEST_P(AttentionScoresTest, DropoutByAddress) {
  for (const Dtype dtype : kElementTypes)
    for (const bool causal : {true, false}) {
      Problem p{.shape = {2, 130, 130, 4, 2, 16}, .causal = causal};
      p.dropout = {.rate = 0.3f, .key = 77, .step = 5, .first_sequence = 3, .first_head = 2, .heads = 9};
      p.dropout.whole_queries = p.dropout.whole_keys = 130;
      expect_textbook(GetParam(), p, dtype);
      p.softcap = 2;
      p.sinks = {0.5, 1, -3, 0};
      p.bias = random_values(4 * 12, Dtype::f32, 7);
      p.bucket_of = buckets_of(130, 6);
      expect_textbook(GetParam(), p, dtype);
    }
}

TEST_P(AttentionScoresTest, TermsThatDoNothingChangeNoBit) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    if (dtype == Dtype::bf16 && GetParam() >= Isa::avx512_bf16) continue;  // other kernels, without terms
    for (const bool causal : {true, false}) {
      Problem p{.shape = {2, 200, 200, 4, 2, 16}, .causal = causal};
      const AttentionInputs in = attention_inputs(p.shape, dtype);
      const auto plain = run(GetParam(), [&](Bench& bench) { return attend(bench, p, in, dtype, false); });
      const auto expect_same = [&](const Problem& with, const char* what) {
        auto got = run(GetParam(), [&](Bench& bench) { return attend(bench, with, in, dtype); });
        got.resize(plain.size());
        EXPECT_EQ(got, plain) << what;
      };
      Problem with = p;
      expect_same(with, "no term");
      for (const float softcap : {kInfinity, 0x1p60f}) {
        with.softcap = softcap;
        expect_same(with, "softcap");
      }
      with = p;
      with.bias = Values(4 * 399, 0);
      expect_same(with, "bias");
      with = p;
      for (const double sink : {-HUGE_VAL, -1000.0}) {
        with.sinks = Values(4, sink);
        expect_same(with, "sinks");
      }
      with = p;
      with.dropout = {.rate = 1e-30f, .heads = 4, .whole_queries = 200, .whole_keys = 200};
      expect_same(with, "dropout");
    }
  }
}

// A block that is not listed adds nothing to a bias: its gradient is that of the mask with a block looked at pair by pair.
TEST_P(AttentionScoresTest, SkippingAndHidingGiveTheSameBits) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    Problem p{.shape = {1, 500, 500, 2, 1, 16}, .causal = false, .softcap = 4};
    p.bias = random_values(2 * 999, Dtype::f32, 5);
    const auto is_witness = [](int64_t t) { return t % 16 == 11; };
    p.sees = [](int64_t t, int64_t s) { return t - 100 <= s && s <= t + 30; };
    AttentionInputs in = attention_inputs(p.shape, dtype);
    for (int64_t t = 0; t < 500; ++t)
      if (is_witness(t)) std::fill_n(in.d_o.begin() + t * 32, 32, 0.0);
    Problem looked_at = p;
    looked_at.sees = [=](int64_t t, int64_t s) { return is_witness(t) || p.sees(t, s); };
    const auto skipped = run(GetParam(), [&](Bench& bench) { return attend(bench, p, in, dtype); });
    const auto hidden = run(GetParam(), [&](Bench& bench) { return attend(bench, looked_at, in, dtype); });
    for (int64_t t = 0; t < 500; ++t) {
      if (is_witness(t)) continue;
      for (const size_t of : {0u, 2u})
        for (auto i = static_cast<size_t>(t * 32); i < static_cast<size_t>((t + 1) * 32); ++i)
          ASSERT_EQ(skipped[of][i], hidden[of][i]) << of << " of " << t;
    }
    for (const size_t of : {3u, 4u, 5u}) EXPECT_EQ(skipped[of], hidden[of]) << of;
  }
}

// Keys in two pieces, merged, with a sink after the last: what one call gives.
TEST_P(AttentionScoresTest, KeysInPieces) {
  Problem p{.shape = {2, 130, 130, 4, 2, 16}, .causal = false, .softcap = 3};
  p.bias = random_values(4 * 259, Dtype::f32, 7);
  p.sinks = {0.5, 1, -3, 0};
  p.dropout = {.rate = 0.2f, .key = 3, .step = 1, .heads = 4, .whole_queries = 130, .whole_keys = 130};
  const AttentionShape& s = p.shape;
  const AttentionInputs in = attention_inputs(s, Dtype::f32);
  const auto whole = run(GetParam(), [&](Bench& bench) { return attend(bench, p, in, Dtype::f32); });
  const auto pieces = run(GetParam(), [&](Bench& bench) -> std::vector<Tensor> {
    const Tensor q = bench.input(in.q, s.q(), Dtype::f32), k = bench.input(in.k, s.k(), Dtype::f32);
    const Tensor v = bench.input(in.v, s.v(), Dtype::f32);
    const Tensor bias = bench.input(p.bias, {4, 259}, Dtype::f32),
                 sinks = bench.input(p.sinks, Shape{4}, Dtype::f32);
    Tensor sum = bench.output(s.o(), Dtype::f32), lse = bench.output(s.lse(), Dtype::f32);
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 70}, {70, 60}}) {
      const AttentionScores scores{.softcap = 3,
                                   .bias = &bias,
                                   .dropout = p.dropout,
                                   .positions = {.queries = {{0, 130}}, .keys = {{first, count}}}};
      const AttentionPart part{.first_key = first, .keys = count, .causal = false, .scores = &scores};
      Tensor o = bench.output(s.o(), Dtype::f32), o_lse = bench.output(s.lse(), Dtype::f32);
      Tensor &to = first == 0 ? sum : o, &to_lse = first == 0 ? lse : o_lse;
      bench.kernels().attention.forward(bench.queue(), to, to_lse, q, k, v, p.scale, part);
      if (first > 0) bench.kernels().attention.merge(bench.queue(), sum, lse, o, o_lse, 0, 130);
    }
    bench.kernels().attention.add_sinks(bench.queue(), sum, lse, sinks);
    return {sum, lse};
  });
  expect_close(pieces[0], whole[0], 2e-6);
  expect_close(pieces[1], whole[1], 2e-6);
}

TEST(AttentionScores, WrongTermsAreRefused) {
  Bench bench(Isa::generic, 1);
  const auto error = [&](const Problem& p) {
    const AttentionInputs in = attention_inputs(p.shape, Dtype::f32);
    return error_of([&] { attend(bench, p, in, Dtype::f32); });
  };
  const Problem plain{.shape = {1, 8, 8, 2, 2, 4}};
  Problem p = plain;
  p.softcap = -1;
  EXPECT_EQ(error(p), "attention.forward: got a softcap of -1, expected it positive, or 0 for none");
  p = plain;
  p.bias = Values(2 * 14, 0);
  EXPECT_EQ(error(p), "attention.forward: got a bias of 14 distances, expected 2n - 1");
  p.bias = Values(2 * 13, 0);
  EXPECT_EQ(error(p),
            "attention.forward: got positions 0 to 7 of queries and 0 to 7 of keys, expected distances "
            "below 7, which the bias has");
  p.bucket_of = std::vector<int32_t>(15, 13);
  EXPECT_EQ(error(p), "attention.forward: bucket_of[0] is 13, expected one of 13 buckets");
  p = plain;
  p.dropout = {.rate = 1, .heads = 2, .whole_queries = 8, .whole_keys = 8};
  EXPECT_EQ(error(p), "attention.forward: got a dropout rate of 1, expected 0 <= rate < 1");
  p.dropout = {.rate = 0.5f, .first_head = 1, .heads = 2, .whole_queries = 8, .whole_keys = 8};
  EXPECT_EQ(error(p),
            "attention.forward: got dropout for heads 1 to 3 of 2, expected them within the layer's heads");
  p.dropout = {.rate = 0.5f, .heads = 2, .whole_queries = 8, .whole_keys = 7};
  EXPECT_EQ(error(p),
            "attention.forward: got positions to 7 of queries and 7 of keys, expected them within "
            "dropout's 8 and 7");
  p = plain;
  p.positions.queries = {{0, 7}};
  p.bias = Values(2 * 15, 0);
  EXPECT_EQ(error(p), "attention.forward: got positions of 7 queries and 8 keys, expected 8 and 8");
}

}  // namespace
}  // namespace athanor::tests::attention_scores_test
