// Attention of some of the queries to some of the keys, and what lies before a document hidden: against the textbook
// in double, and put together to the whole.
#include <algorithm>
#include <cmath>
#include <limits>

#include "athanor/base/philox.h"

#include "kernels/attention_values.h"
#include "support/tiers.h"

namespace athanor::tests::attention_part_test {
namespace {

using AttentionPartTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, AttentionPartTest,
                         testing::Values(Isa::generic, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx),
                         isa_test_name);

struct Problem {
  int64_t batch, queries, keys, heads, kv_heads, head_dim;
  int64_t first_query = 0, used_queries = 0, first_key = 0, used_keys = 0;  // the part
  bool causal = true;
  std::vector<int32_t> first_keys = {};  // [B,T] or none

  AttentionShape shape() const { return {batch, queries, keys, heads, kv_heads, head_dim}; }
  Shape q() const { return shape().q(); }
  Shape k() const { return shape().k(); }
  Shape lse() const { return shape().lse(); }
  bool sees(int64_t b, int64_t t, int64_t s) const {
    if (t < first_query || t >= first_query + used_queries || s < first_key || s >= first_key + used_keys)
      return false;
    if (causal && s - first_key > t - first_query + used_keys - used_queries) return false;
    return first_keys.empty() || s >= first_keys[static_cast<size_t>(b * queries + t)];
  }
};

Problem whole(int64_t batch, int64_t length, int64_t heads, int64_t kv_heads, int64_t head_dim) {
  return {.batch = batch,
          .queries = length,
          .keys = length,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .used_queries = length,
          .used_keys = length};
}

// Documents of up to `longest` tokens, others in each sequence.
std::vector<int32_t> documents(int64_t batch, int64_t length, int64_t longest) {
  std::vector<int32_t> starts;
  const RandomStream stream(4, "documents");
  for (int64_t b = 0; b < batch; ++b) {
    int32_t start = 0;
    for (int64_t t = 0; t < length; ++t) {
      const auto word = stream.word(static_cast<uint64_t>(b * length + t), 0);
      if (t > 0 && static_cast<int64_t>(word % static_cast<uint64_t>(longest)) == 0)
        start = static_cast<int32_t>(t);
      starts.push_back(start);
    }
  }
  return starts;
}

AttentionInputs part_inputs(const Problem& p, Dtype dtype) {
  return attention_inputs(p.shape(), dtype);
}

AttentionResults expected_part(const Problem& p, const AttentionInputs& in, double scale) {
  return attention_textbook(p.shape(), in, scale,
                            [&](int64_t b, int64_t, int64_t t, int64_t s) { return p.sees(b, t, s); });
}

Tensor ids_of(Bench& bench, const Problem& p) {
  Tensor ids = bench.output({p.batch, p.queries}, Dtype::i32);
  if (!p.first_keys.empty()) copy_from_host(ids, p.first_keys.data(), ids.size_bytes());
  return ids;
}

AttentionPart part_of(const Problem& p, const Tensor* first_keys) {
  return {.first_query = p.first_query,
          .queries = p.used_queries,
          .first_key = p.first_key,
          .keys = p.used_keys,
          .causal = p.causal,
          .first_keys = p.first_keys.empty() ? nullptr : first_keys};
}

void expect_part_matches(Isa isa, const Problem& p, Dtype dtype) {
  SCOPED_TRACE(fmt::format("{} B {} T {} S {} H {} K {} D {}, queries {} from {}, keys {} from {}{}{}",
                           name_of(dtype), p.batch, p.queries, p.keys, p.heads, p.kv_heads, p.head_dim,
                           p.used_queries, p.first_query, p.used_keys, p.first_key,
                           p.causal ? ", causal" : "", p.first_keys.empty() ? "" : ", documents"));
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(p.head_dim)));
  const AttentionInputs in = part_inputs(p, dtype);
  const bool backward = !p.causal || p.used_keys == p.used_queries;
  const auto got = run(isa, [&](Bench& bench) {
    const Tensor q = bench.input(in.q, p.q(), dtype), k = bench.input(in.k, p.k(), dtype);
    const Tensor v = bench.input(in.v, p.k(), dtype), first_keys = ids_of(bench, p);
    Tensor o = bench.output(p.q(), dtype), lse = bench.output(p.lse(), Dtype::f32);
    Tensor dq = bench.output(p.q(), dtype), dk = bench.output(p.k(), dtype), dv = bench.output(p.k(), dtype);
    for (Tensor* x : {&o, &dq, &dk, &dv}) fill_zero(*x);  // rows that the part leaves alone
    fill(lse, -std::numeric_limits<float>::infinity());
    const AttentionPart part = part_of(p, &first_keys);
    bench.kernels().attention.forward(bench.queue(), o, lse, q, k, v, scale, part);
    if (!backward) return std::vector{o, lse};
    bench.kernels().attention.backward(bench.queue(), dq, dk, dv, bench.input(in.d_o, p.q(), dtype), o, lse,
                                       q, k, v, scale, part);
    return std::vector{o, lse, dq, dk, dv};
  });
  const AttentionResults expected = expected_part(p, in, scale);
  expect_close(got[0], expected.o, 1.5 * tolerance(dtype));
  expect_lse(got[1], expected.lse);
  if (!backward) return;
  // One key leaves nothing to choose: dq and dk are zero up to what cancels.
  if (p.used_keys > 1) expect_close(got[2], expected.dq, attention_gradient_tolerance(dtype));
  if (p.used_keys > 1) expect_close(got[3], expected.dk, attention_gradient_tolerance(dtype));
  expect_close(got[4], expected.dv, attention_gradient_tolerance(dtype));
}

TEST_P(AttentionPartTest, DocumentsDoNotSeeEachOther) {
  for (const Dtype dtype : kElementTypes)
    for (const auto& [length, longest] :
         {std::pair{2, 100}, {17, 4}, {64, 9}, {65, 30}, {130, 40}, {200, 500}, {300, 100}}) {
      Problem p = whole(2, length, 4, 2, 24);
      p.first_keys = documents(2, length, longest);
      expect_part_matches(GetParam(), p, dtype);
    }
  for (const int64_t length : {600, 1030}) {
    Problem p = whole(1, length, 1, 1, 8);
    p.first_keys = documents(1, length, 300);
    expect_part_matches(GetParam(), p, Dtype::f32);
  }
}

TEST_P(AttentionPartTest, DocumentsWithMoreKeysThanQueries) {
  for (const Dtype dtype : kElementTypes) {
    Problem p = whole(2, 40, 4, 2, 64);
    p.keys = p.used_keys = 333;
    for (int64_t i = 0; i < 2 * 40; ++i) p.first_keys.push_back(static_cast<int32_t>(i % 40 < 11 ? 3 : 290));
    expect_part_matches(GetParam(), p, dtype);
  }
}

TEST_P(AttentionPartTest, SomeQueriesSeeSomeKeys) {
  if (device_is_emulated()) LEAVE_OUT_UNDER(address_sanitizer, "on the emulated device it takes minutes");
  for (const Dtype dtype : kElementTypes)
    for (const bool with_documents : {false, true})
      for (const auto& [used_queries, used_keys] :
           {std::pair{1, 1}, {5, 40}, {40, 5}, {33, 64}, {64, 33}, {100, 100}, {90, 120}}) {
        Problem p = whole(2, 130, 4, 2, 20);
        p.causal = false;
        p.first_query = 7;
        p.used_queries = used_queries;
        p.first_key = 9;
        p.used_keys = used_keys;
        if (with_documents) p.first_keys = documents(2, 130, 60);  // some see all of the part, some nothing
        expect_part_matches(GetParam(), p, dtype);
      }
  for (const auto& [used_queries, used_keys] : {std::pair{600, 260}, {260, 600}}) {
    Problem p = whole(1, 610, 1, 1, 4);
    p.causal = false;
    p.used_queries = used_queries;
    p.used_keys = used_keys;
    expect_part_matches(GetParam(), p, Dtype::f32);
    p.first_keys = documents(1, 610, 400);
    expect_part_matches(GetParam(), p, Dtype::f32);
  }
}

// As many heads as make a pass by heads, with blocks that nobody sees.
TEST_P(AttentionPartTest, ManyHeads) {
  for (const bool causal : {true, false}) {
    Problem p = whole(2, 300, 32, 16, 4);
    p.causal = causal;
    p.used_queries = causal ? 300 : 280;
    p.used_keys = causal ? 300 : 270;
    p.first_keys = documents(2, 300, 200);
    expect_part_matches(GetParam(), p, Dtype::f32);
    if (GetParam() >= Isa::avx512_bf16) expect_part_matches(GetParam(), p, Dtype::bf16);
  }
}

// A causal part inside of a longer sequence.
TEST_P(AttentionPartTest, ACausalPart) {
  for (const Dtype dtype : kElementTypes) {
    Problem p = whole(2, 90, 4, 2, 16);
    p.first_query = p.first_key = 20;
    p.used_queries = p.used_keys = 50;
    expect_part_matches(GetParam(), p, dtype);
    p.first_keys = documents(2, 90, 25);
    expect_part_matches(GetParam(), p, dtype);
  }
}

// Scores so low that the exponential of what is hidden overflows where it is not masked.
TEST_P(AttentionPartTest, PaddingOfABlockOfKeysIsHidden) {
  for (const Dtype dtype : kElementTypes) {
    Problem p = whole(1, 40, 1, 1, 8);
    p.causal = false;
    AttentionInputs in = part_inputs(p, dtype);
    for (double& x : in.q) x = 8;
    for (double& x : in.k) x = -8;
    const auto got = run(GetParam(), [&](Bench& bench) {
      const Tensor q = bench.input(in.q, p.q(), dtype), k = bench.input(in.k, p.k(), dtype);
      const Tensor v = bench.input(in.v, p.k(), dtype), d_o = bench.input(in.d_o, p.q(), dtype);
      Tensor o = bench.output(p.q(), dtype), lse = bench.output(p.lse(), Dtype::f32);
      Tensor dq = bench.output(p.q(), dtype), dk = bench.output(p.k(), dtype),
             dv = bench.output(p.k(), dtype);
      const AttentionPart part = part_of(p, nullptr);
      bench.kernels().attention.forward(bench.queue(), o, lse, q, k, v, 1, part);
      bench.kernels().attention.backward(bench.queue(), dq, dk, dv, d_o, o, lse, q, k, v, 1, part);
      return std::vector{o, dq, dk, dv};
    });
    const AttentionResults expected = expected_part(p, in, 1);
    // Scores of 512 are rounded by 3e-5.
    expect_close(got[0], expected.o, std::max(1e-4, 1.5 * tolerance(dtype)));
    expect_close(got[3], expected.dv, std::max(1e-4, attention_gradient_tolerance(dtype)));
    for (const Values& values : got)
      for (const double x : values) ASSERT_TRUE(std::isfinite(x)) << name_of(dtype);
  }
}

// Keys in parts of 1, 2 and 3 thirds, in any order: o and lse merge to those of all, the gradients of the parts add up.
TEST_P(AttentionPartTest, PartsMakeTheWhole) {
  constexpr int64_t kLength = 96;
  for (const Dtype dtype : kElementTypes)
    for (const bool with_documents : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", name_of(dtype), with_documents ? " documents" : ""));
      Problem p = whole(2, kLength, 4, 2, 32);
      p.causal = false;
      if (with_documents)
        for (int64_t i = 0; i < 2 * kLength; ++i)
          p.first_keys.push_back(static_cast<int32_t>(i % kLength < 40 ? 5 : 50));
      const AttentionInputs in = part_inputs(p, dtype);
      const auto got = run(GetParam(), [&](Bench& bench) {
        const auto& attention = bench.kernels().attention;
        const Tensor q = bench.input(in.q, p.q(), dtype), k = bench.input(in.k, p.k(), dtype);
        const Tensor v = bench.input(in.v, p.k(), dtype), first_keys = ids_of(bench, p);
        const Tensor d_o = bench.input(in.d_o, p.q(), dtype);
        Tensor part_o = bench.output(p.q(), dtype), part_lse = bench.output(p.lse(), Dtype::f32);
        Tensor sum = bench.output(p.q(), Dtype::f32), lse = bench.output(p.lse(), Dtype::f32);
        Tensor o = bench.output(p.q(), dtype), dq = bench.output(p.q(), dtype);
        Tensor dk = bench.output(p.k(), dtype), dv = bench.output(p.k(), dtype);
        Tensor dq_sum = bench.output(p.q(), Dtype::f32), wide = bench.output(p.q(), Dtype::f32);
        fill_zero(sum);
        fill_zero(dq_sum);
        fill(lse, -std::numeric_limits<float>::infinity());
        Problem third = p;
        third.used_keys = kLength / 3;
        for (const int64_t i : {1, 0, 2}) {
          third.first_key = i * kLength / 3;
          attention.forward(bench.queue(), part_o, part_lse, q, k, v, 0.2f, part_of(third, &first_keys));
          attention.merge(bench.queue(), sum, lse, part_o, part_lse, 0, kLength);
        }
        bench.kernels().elementwise.cast(bench.queue(), o, sum);
        for (const int64_t i : {2, 0, 1}) {
          third.first_key = i * kLength / 3;
          attention.backward(bench.queue(), dq, dk, dv, d_o, o, lse, q, k, v, 0.2f,
                             part_of(third, &first_keys));
          bench.kernels().elementwise.cast(bench.queue(), wide, dq);
          bench.kernels().elementwise.accumulate(bench.queue(), dq_sum, wide);
        }
        return std::vector{o, lse, dq_sum, dk, dv};
      });
      const AttentionResults expected = expected_part(p, in, 0.2f);
      const double more = dtype == Dtype::f32 ? 2 : 1.5;  // thirds are rounded, too
      expect_close(got[0], expected.o, 1.5 * more * tolerance(dtype));
      expect_close(got[1], expected.lse, 4e-6);
      expect_close(got[2], expected.dq, more * attention_gradient_tolerance(dtype));
      expect_close(got[3], expected.dk, more * attention_gradient_tolerance(dtype));
      expect_close(got[4], expected.dv, more * attention_gradient_tolerance(dtype));
    }
}

// What a document does not see must not touch its bits, even where it is not finite; and whole blocks before it are
// not even read, forward or backward.
TEST_P(AttentionPartTest, OtherDocumentsAreInvisible) {
  for (const Dtype dtype : kElementTypes)
    for (const int64_t start : {5, 33, 64, 100, 256, 257}) {
      SCOPED_TRACE(fmt::format("{} from {}", name_of(dtype), start));
      Problem p = whole(1, 300, 2, 1, 32);
      for (int64_t t = 0; t < 300; ++t) p.first_keys.push_back(static_cast<int32_t>(t < start ? 0 : start));
      const AttentionInputs in = part_inputs(p, dtype);
      AttentionInputs other = in;
      for (int64_t i = 0; i < start * p.head_dim; i += 3)
        other.k[static_cast<size_t>(i)] = other.v[static_cast<size_t>(i)] =
            i % 2 == 0 ? std::nan("") : HUGE_VAL;
      const auto outputs = [&](const AttentionInputs& inputs) {
        Bench bench(GetParam(), 1);
        const Tensor q = bench.input(inputs.q, p.q(), dtype), k = bench.input(inputs.k, p.k(), dtype);
        const Tensor v = bench.input(inputs.v, p.k(), dtype), first_keys = ids_of(bench, p);
        Tensor o = bench.output(p.q(), dtype), lse = bench.output(p.lse(), Dtype::f32);
        Tensor dq = bench.output(p.q(), dtype), dk = bench.output(p.k(), dtype),
               dv = bench.output(p.k(), dtype);
        const AttentionPart part = part_of(p, &first_keys);
        bench.kernels().attention.forward(bench.queue(), o, lse, q, k, v, 0.2f, part);
        bench.kernels().attention.backward(bench.queue(), dq, dk, dv, bench.input(in.d_o, p.q(), dtype), o,
                                           lse, q, k, v, 0.2f, part);
        return std::vector{values_of(o), values_of(dq), values_of(dk)};
      };
      const auto before = outputs(in), after = outputs(other);
      const int64_t row = p.heads * p.head_dim;
      EXPECT_TRUE(
          std::equal(before[0].begin() + start * row, before[0].end(), after[0].begin() + start * row));
      if (start == 256) {
        EXPECT_TRUE(
            std::equal(before[1].begin() + start * row, before[1].end(), after[1].begin() + start * row))
            << "a block before the document was read";
      }
    }
}

TEST(AttentionPart, WrongPartsAreRefused) {
  Bench bench(Isa::generic, 1);
  const Problem p = whole(1, 8, 2, 1, 4);
  Tensor o = bench.output(p.q(), Dtype::f32), lse = bench.output(p.lse(), Dtype::f32);
  const Tensor q = bench.output(p.q(), Dtype::f32), k = bench.output(p.k(), Dtype::f32);
  const auto error_of = [&](const AttentionPart& part) -> std::string {
    try {
      bench.kernels().attention.forward(bench.queue(), o, lse, q, k, k, 1, part);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of({.first_key = 3, .keys = 6}),
            "attention.forward: got 6 keys from 3 on, expected them within 8");
  EXPECT_EQ(error_of({.first_query = 9}),
            "attention.forward: got -1 queries from 9 on, expected them within 8");
  EXPECT_EQ(error_of({.first_key = 8, .causal = false}), "attention.forward: got no keys, expected some");
  Problem falling = p;
  falling.first_keys = {0, 1, 2, 3, 2, 5, 6, 7};
  const Tensor first_keys = ids_of(bench, falling);
  EXPECT_EQ(error_of({.first_keys = &first_keys}),
            "attention.forward: first_keys of sequence 0 fall at query 4 to 2");
}

}  // namespace
}  // namespace athanor::tests::attention_part_test
