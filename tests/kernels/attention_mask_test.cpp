// Attention through a mask of blocks: against the textbook in double, and bit for bit against the same mask looked at pair by
// pair.
#include <algorithm>
#include <cmath>
#include <limits>

#include "athanor/base/philox.h"

#include "kernels/attention_values.h"

namespace athanor::tests::attention_mask_test {
namespace {

using AttentionMaskTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, AttentionMaskTest, row_isas(), isa_test_name);

using Sees = PlainRule::Sees;

struct Problem {
  int64_t batch = 1, queries = 0, keys = 0, heads = 2, kv_heads = 1, head_dim = 16;
  bool causal = false;
  std::vector<Sees> rules = {};
  std::vector<int32_t> rule_of_head = {};  // none: all heads have the first
  std::vector<int32_t> first_keys = {}, end_keys = {};

  AttentionShape shape() const { return {batch, queries, keys, heads, kv_heads, head_dim}; }
  Shape q() const { return shape().q(); }
  Shape k() const { return shape().k(); }
  Shape lse() const { return shape().lse(); }
  bool sees(int64_t b, int64_t h, int64_t t, int64_t s) const {
    const auto row = static_cast<size_t>(b * queries + t);
    if (causal && s > t + keys - queries) return false;
    if (!first_keys.empty() && s < first_keys[row]) return false;
    if (!end_keys.empty() && s >= end_keys[row]) return false;
    return rules[static_cast<size_t>(rules_of()[static_cast<size_t>(h)])](t, s);
  }
  std::vector<int32_t> rules_of() const {
    return rule_of_head.empty() ? std::vector<int32_t>(static_cast<size_t>(heads), 0) : rule_of_head;
  }
  AttentionMask mask() const {
    std::vector<PlainRule> plain(rules.begin(), rules.end());
    std::vector<const MaskRule*> made;
    for (const PlainRule& rule : plain) made.push_back(&rule);
    return make_mask({.queries = {{0, queries}}, .keys = {{0, keys}}}, made, rules_of());
  }
};

// o, lse, dq, dk, dv of the problem. Rows of q whose gradient is nothing take part all the same.
std::vector<Tensor> attend(Bench& bench, const Problem& p, const AttentionInputs& in, Dtype dtype,
                           float scale, const AttentionMask* mask) {
  const Tensor q = bench.input(in.q, p.q(), dtype), k = bench.input(in.k, p.k(), dtype);
  const Tensor v = bench.input(in.v, p.k(), dtype), d_o = bench.input(in.d_o, p.q(), dtype);
  Tensor o = bench.output(p.q(), dtype), lse = bench.output(p.lse(), Dtype::f32);
  Tensor dq = bench.output(p.q(), dtype), dk = bench.output(p.k(), dtype), dv = bench.output(p.k(), dtype);
  Tensor first_keys, end_keys;
  if (!p.first_keys.empty()) first_keys = bench.ids(p.first_keys, {p.batch, p.queries});
  if (!p.end_keys.empty()) end_keys = bench.ids(p.end_keys, {p.batch, p.queries});
  const AttentionPart part{.causal = p.causal,
                           .first_keys = first_keys.defined() ? &first_keys : nullptr,
                           .end_keys = end_keys.defined() ? &end_keys : nullptr,
                           .mask = mask};
  bench.kernels().attention.forward(bench.queue(), o, lse, q, k, v, scale, part);
  if (p.causal && p.queries != p.keys) return {o, lse};
  bench.kernels().attention.backward(bench.queue(), dq, dk, dv, d_o, o, lse, q, k, v, scale, part);
  return {o, lse, dq, dk, dv};
}

void expect_textbook(Isa isa, const Problem& p, Dtype dtype) {
  SCOPED_TRACE(fmt::format("{} B {} T {} S {} H {} K {} D {}{}", name_of(dtype), p.batch, p.queries, p.keys,
                           p.heads, p.kv_heads, p.head_dim, p.causal ? ", causal" : ""));
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(p.head_dim)));
  const AttentionInputs in = attention_inputs(p.shape(), dtype);
  const AttentionMask mask = p.mask();
  const auto got = run(isa, [&](Bench& bench) { return attend(bench, p, in, dtype, scale, &mask); });
  const AttentionResults expected = attention_textbook(
      p.shape(), in, scale, [&](int64_t b, int64_t h, int64_t t, int64_t k) { return p.sees(b, h, t, k); });
  expect_close(got[0], expected.o, 1.5 * tolerance(dtype));
  expect_lse(got[1], expected.lse);
  if (got.size() == 2) return;
  // One key leaves nothing to choose: dq and dk are zero up to what cancels.
  if (p.keys > 1) expect_close(got[2], expected.dq, attention_gradient_tolerance(dtype));
  if (p.keys > 1) expect_close(got[3], expected.dk, attention_gradient_tolerance(dtype));
  expect_close(got[4], expected.dv, attention_gradient_tolerance(dtype));
}

Sees band(int64_t left, int64_t right) {
  return [=](int64_t t, int64_t s) { return t - left <= s && s <= t + right; };
}
// Block rows and columns of `size` that see each other by the toss of a coin, and each its own.
Sees coins(int64_t size, uint64_t seed) {
  return [=](int64_t t, int64_t s) {
    const RandomStream stream(seed, "coins");
    return t / size == s / size || stream.word(static_cast<uint64_t>(t / size * 1000 + s / size), 0) % 4 == 0;
  };
}

TEST_P(AttentionMaskTest, OfAnyPatternIsTheTextbook) {
  for (const Dtype dtype : kElementTypes)
    for (const int64_t length : {1, 31, 64, 65, 130, 300})
      for (const bool causal : {true, false}) {
        Problem p{.batch = 2, .queries = length, .keys = length, .heads = 4, .kv_heads = 2, .causal = causal};
        p.rules = {band(5, causal ? 0 : 5), coins(1, 3)};
        p.rule_of_head = {0, 0, 1, 1};
        expect_textbook(GetParam(), p, dtype);
      }
}

TEST_P(AttentionMaskTest, OfBlocksIsTheTextbook) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    Problem p{.queries = 700, .keys = 700, .heads = 2, .kv_heads = 2, .head_dim = 8};
    p.rules = {coins(64, 1), band(70, 200)};
    p.rule_of_head = {0, 1};
    expect_textbook(GetParam(), p, dtype);
    p.rules = {coins(96, 5), [](int64_t t, int64_t s) { return s < 3 || t / 128 == s / 128; }};
    p.causal = true;
    expect_textbook(GetParam(), p, dtype);
  }
  // As many heads as make a backward pass by heads.
  Problem many{.batch = 2, .queries = 300, .keys = 300, .heads = 32, .kv_heads = 16, .head_dim = 4};
  many.rules = {coins(64, 9)};
  expect_textbook(GetParam(), many, Dtype::f32);
  if (GetParam() >= Isa::avx512_bf16) expect_textbook(GetParam(), many, Dtype::bf16);
}

TEST_P(AttentionMaskTest, OfOtherKeysAndWithIntervals) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    Problem cross{.batch = 2, .queries = 90, .keys = 333, .heads = 2, .kv_heads = 2};
    cross.rules = {[](int64_t t, int64_t s) { return s % 7 == t % 7; }};
    expect_textbook(GetParam(), cross, dtype);
    cross.causal = true;  // the last of the positions, as with cached keys
    expect_textbook(GetParam(), cross, dtype);

    Problem p{.batch = 2, .queries = 290, .keys = 290, .heads = 2, .kv_heads = 2};
    p.rules = {[](int64_t t, int64_t s) { return (t + s) % 3 != 0 || t == s; }};
    for (int32_t t = 0; t < 580; ++t) {
      const int32_t at = t % 290, begin = at < 70 ? 0 : at < 200 ? 70 : 200;
      p.first_keys.push_back(t < 290 ? begin : 0);
      p.end_keys.push_back(t >= 290 ? 250 : at < 70 ? 70 : at < 200 ? 200 : 290);
    }
    expect_textbook(GetParam(), p, dtype);
    p.rules = {[](int64_t, int64_t) { return true; }};
    expect_textbook(GetParam(), p, dtype);
  }
}

TEST_P(AttentionMaskTest, EndsOfKeysAlone) {
  for (const Dtype dtype : kElementTypes) {
    Problem p{.batch = 3, .queries = 140, .keys = 200, .heads = 2, .kv_heads = 1};
    p.rules = {[](int64_t, int64_t) { return true; }};
    for (const int32_t end : {200, 1, 77}) p.end_keys.insert(p.end_keys.end(), 140, end);
    expect_textbook(GetParam(), p, dtype);
    const auto scale = 0.25f;
    const AttentionInputs in = attention_inputs(p.shape(), dtype);
    const AttentionMask all = p.mask();
    const auto with = run(GetParam(), [&](Bench& bench) { return attend(bench, p, in, dtype, scale, &all); });
    const auto without =
        run(GetParam(), [&](Bench& bench) { return attend(bench, p, in, dtype, scale, nullptr); });
    EXPECT_EQ(with, without);
  }
}

TEST_P(AttentionMaskTest, AQueryWithoutKeysGivesNothing) {
  for (const Dtype dtype : kElementTypes) {
    Problem p{.queries = 150, .keys = 150, .heads = 1, .kv_heads = 1};
    p.rules = {[](int64_t t, int64_t s) { return t % 64 != 5 && t < 128 && s > t; }};
    expect_textbook(GetParam(), p, dtype);
  }
}

// The same mask with a witness in every strip of 16 queries that sees all keys, and adds nothing to a gradient: nothing can be
// skipped, and each pair that the others do not see is hidden one by one. Their bits are the same.
TEST_P(AttentionMaskTest, SkippingAndHidingGiveTheSameBits) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
    for (const bool causal : {true, false})
      for (const Sees& sees : {band(100, 30), coins(64, 2), coins(1, 7)}) {
        const auto is_witness = [](int64_t t) { return t % 16 == 11; };
        Problem p{.queries = 500, .keys = 500, .heads = 2, .kv_heads = 1, .head_dim = 24, .causal = causal};
        p.rules = {sees};
        AttentionInputs in = attention_inputs(p.shape(), dtype);
        for (int64_t t = 0; t < p.queries; ++t)
          if (is_witness(t)) std::fill_n(in.d_o.begin() + t * 48, 48, 0.0);
        Problem looked_at = p;
        looked_at.rules = {[=](int64_t t, int64_t s) { return is_witness(t) || sees(t, s); }};
        const AttentionMask sparse = p.mask(), dense = looked_at.mask();
        ASSERT_EQ(dense.figures(0).partial_blocks + dense.figures(0).full_blocks, 8 * 8);
        const auto skipped =
            run(GetParam(), [&](Bench& bench) { return attend(bench, p, in, dtype, 0.3f, &sparse); });
        const auto hidden =
            run(GetParam(), [&](Bench& bench) { return attend(bench, p, in, dtype, 0.3f, &dense); });
        for (int64_t t = 0; t < p.queries; ++t) {
          if (is_witness(t)) continue;
          for (int64_t i = t * 48; i < (t + 1) * 48; ++i)
            ASSERT_EQ(skipped[0][static_cast<size_t>(i)], hidden[0][static_cast<size_t>(i)]) << "o of " << t;
          for (int64_t i = t * 48; i < (t + 1) * 48; ++i)
            ASSERT_EQ(skipped[2][static_cast<size_t>(i)], hidden[2][static_cast<size_t>(i)]) << "dq of " << t;
          for (const int64_t head : {0, 1})
            ASSERT_EQ(skipped[1][static_cast<size_t>(head * 500 + t)],
                      hidden[1][static_cast<size_t>(head * 500 + t)]);
        }
        EXPECT_EQ(skipped[3], hidden[3]) << "dk";
        EXPECT_EQ(skipped[4], hidden[4]) << "dv";
      }
}

// The causal order of the kernels, and the same as a mask.
TEST_P(AttentionMaskTest, TheCausalMaskIsTheCausalOrder) {
  for (const Dtype dtype : kElementTypes) {
    Problem p{
        .batch = 2, .queries = 290, .keys = 290, .heads = 4, .kv_heads = 2, .head_dim = 32, .causal = true};
    const AttentionInputs in = attention_inputs(p.shape(), dtype);
    Problem masked = p;
    masked.causal = false;
    masked.rules = {[](int64_t t, int64_t s) { return s <= t; }};
    const AttentionMask mask = masked.mask();
    const auto order =
        run(GetParam(), [&](Bench& bench) { return attend(bench, p, in, dtype, 0.2f, nullptr); });
    const auto got =
        run(GetParam(), [&](Bench& bench) { return attend(bench, masked, in, dtype, 0.2f, &mask); });
    EXPECT_EQ(order, got) << name_of(dtype);
  }
}

TEST_P(AttentionMaskTest, BlocksThatAreNotListedAreNotRead) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    Problem p{.queries = 1024, .keys = 1024, .heads = 1, .kv_heads = 1, .head_dim = 32};
    p.rules = {[](int64_t t, int64_t s) { return t / 256 == 2 || s / 256 != 1; }};
    const AttentionInputs in = attention_inputs(p.shape(), dtype);
    AttentionInputs broken = in;  // keys that only the third block of queries sees
    for (int64_t i = 256 * 32; i < 512 * 32; ++i)
      broken.k[static_cast<size_t>(i)] = broken.v[static_cast<size_t>(i)] = std::nan("");
    const AttentionMask mask = p.mask();
    Bench bench(GetParam(), 1);
    const auto before = attend(bench, p, in, dtype, 0.2f, &mask);
    const auto after = attend(bench, p, broken, dtype, 0.2f, &mask);
    for (const size_t of : {0u, 2u}) {
      const Values x = values_of(before[of]), y = values_of(after[of]);
      EXPECT_TRUE(std::equal(x.begin(), x.begin() + 512 * 32, y.begin())) << of;
      EXPECT_TRUE(std::equal(x.begin() + 768 * 32, x.end(), y.begin() + 768 * 32)) << of;
      EXPECT_TRUE(std::isnan(y[600 * 32])) << of;
    }
  }
}

TEST(AttentionMask, WrongMasksAreRefused) {
  Bench bench(Isa::generic, 1);
  Problem p{.queries = 8, .keys = 8, .heads = 4, .kv_heads = 2, .head_dim = 4};
  p.rules = {band(1, 1), band(2, 2)};
  const AttentionInputs in = attention_inputs(p.shape(), Dtype::f32);
  const auto error = [&](const Problem& of) {
    const AttentionMask mask = of.mask();
    return error_of([&] { attend(bench, p, in, Dtype::f32, 1, &mask); });
  };
  Problem other = p;
  other.rule_of_head = {0, 1, 1, 1};
  EXPECT_EQ(error(other), "attention.forward: got different masks of heads 0 and 1, which share their keys");
  other = p;
  other.keys = 9;
  EXPECT_EQ(error(other),
            "attention.forward: got a mask of 8 queries, 9 keys and 4 heads, expected 8, 8 and 4");
  p.end_keys = {8, 8, 8, 7, 8, 8, 8, 8};
  EXPECT_EQ(error(p), "attention.forward: end_keys of sequence 0 fall at query 3 to 7");
}

}  // namespace
}  // namespace athanor::tests::attention_mask_test
