// Self-attention beside plain loops: causal, with groups of queries, rotated; and one token after the other from a
// cache.
#include "athanor/nn/attention.h"

#include <gmock/gmock.h>

#include "athanor/masks/pattern.h"
#include "nn/layer.h"

namespace athanor::tests::attention_test {
namespace {

constexpr int64_t kBatch = 2, kLength = 7, kWidth = 10, kHeads = 4, kDim = 6;

// q [B,S,H,D] and k, v [B,S,K,D], flat -> [B,S,H*D]
Floats naive_attention(const Floats& q, const Floats& k, const Floats& v, int64_t kv_heads) {
  Floats y(q.size());
  const auto at = [&](const Floats& x, int64_t heads, int64_t b, int64_t s, int64_t h, int64_t d) {
    return static_cast<double>(x[static_cast<size_t>(((b * kLength + s) * heads + h) * kDim + d)]);
  };
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t s = 0; s < kLength; ++s) {
        const int64_t group = h / (kHeads / kv_heads);
        std::vector<double> weights;
        double sum = 0.0;
        for (int64_t t = 0; t <= s; ++t) {
          double score = 0.0;
          for (int64_t d = 0; d < kDim; ++d)
            score += at(q, kHeads, b, s, h, d) * at(k, kv_heads, b, t, group, d);
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(kDim))));
          sum += weights.back();
        }
        for (int64_t d = 0; d < kDim; ++d) {
          double mean = 0.0;
          for (int64_t t = 0; t <= s; ++t)
            mean += weights[static_cast<size_t>(t)] / sum * at(v, kv_heads, b, t, group, d);
          y[static_cast<size_t>(((b * kLength + s) * kHeads + h) * kDim + d)] = static_cast<float>(mean);
        }
      }
  return y;
}

AttentionOptions options(int64_t kv_heads, bool bias) {
  return {.width = kWidth,
          .heads = kHeads,
          .kv_heads = kv_heads,
          .head_dim = kDim,
          .bias = bias,
          .init_std = 0.7,
          .output_init_std = 0.1};
}

class SelfAttentionTest : public ::testing::Test {
 protected:
  using Layer = Rooted<SelfAttention>;
  Floats project(const Layer& layer, const char* name, const Tensor& x, bool bias) const {
    const std::string path = std::string("attn.") + name;
    return naive_linear(to_floats(x), layer.values(path + ".weight"),
                        bias ? layer.values(path + ".bias") : Floats{}, kWidth);
  }
  Engine engine{2};
};

TEST_F(SelfAttentionTest, DeclaresItsFourProjections) {
  const Layer layer(engine, "attn", options(2, true));
  EXPECT_THAT(layer.names(),
              ::testing::ElementsAre("attn.q.weight", "attn.q.bias", "attn.k.weight", "attn.k.bias",
                                     "attn.v.weight", "attn.v.bias", "attn.o.weight", "attn.o.bias"));
  EXPECT_EQ(layer.param("attn.q.weight").shape(), (Shape{kHeads * kDim, kWidth}));
  EXPECT_EQ(layer.param("attn.k.weight").shape(), (Shape{2 * kDim, kWidth}));
  EXPECT_EQ(layer.param("attn.o.weight").shape(), (Shape{kWidth, kHeads * kDim}));
  EXPECT_EQ(&layer.layer.output().weight().param(), &layer.param("attn.o.weight"));
}

TEST_F(SelfAttentionTest, EachTokenSeesThoseUpToItself) {
  const Tensor x = engine.random({kBatch, kLength, kWidth}, "x");
  for (const int64_t kv_heads : {1, 2, 4})
    for (const bool bias : {true, false}) {
      const Layer layer(engine, "attn", options(kv_heads, bias));
      expect_close(layer.of(x, nullptr, nullptr),
                   naive_attention(project(layer, "q", x, bias), project(layer, "k", x, bias),
                                   project(layer, "v", x, bias), kv_heads));
    }
}

// Scores depend on distances alone: the same as at other positions, and not the same as without a table.
TEST_F(SelfAttentionTest, ATableRotatesQueriesAndKeys) {
  const Tensor x = engine.random({kBatch, kLength, kWidth}, "x");
  const Layer layer(engine, "attn", options(2, false));
  const RopeTable table = make_rope_table(engine.arena, 32, kDim, 100.0);
  const RopeTable later{table.cos.slice(9, 32), table.sin.slice(9, 32)};
  const Floats y = layer.of(x, &table, nullptr);
  expect_close(layer.of(x, &later, nullptr), y);
  EXPECT_NE(layer.of(x, nullptr, nullptr), y);
}

TEST_F(SelfAttentionTest, ACacheGivesWhatTheWholeSequenceGives) {
  const Layer layer(engine, "attn", options(2, true));
  const RopeTable table = make_rope_table(engine.arena, 32, kDim, 100.0);
  const Tensor x = engine.random({1, kLength, kWidth}, "x");
  const Floats whole = layer.of(x, &table, nullptr);
  KvCache cache;
  cache.k = empty(engine.arena, {kLength, 2, kDim}, Dtype::f32, Category::activations);
  cache.v = empty(engine.arena, {kLength, 2, kDim}, Dtype::f32, Category::activations);
  Floats pieces;
  for (const auto& [first, last] : {std::pair{0, 3}, {3, 4}, {4, 7}}) {
    const Tensor piece = x.view({kLength, kWidth}).slice(first, last).view({1, last - first, kWidth});
    const Floats y = layer.of(piece, &table, &cache);
    pieces.insert(pieces.end(), y.begin(), y.end());
    EXPECT_EQ(cache.length, last);
  }
  expect_close(pieces, whole);
  EXPECT_THROW(layer.of(x, &table, &cache), Error);  // it is full
}

// The same under a pattern, other than the causal order's.
TEST_F(SelfAttentionTest, ACacheKeepsToThePattern) {
  const AttentionPattern pattern = AttentionPattern::parse("causal + window:2 + global:1");
  const LayerMask mask([&](const MaskRequest& request) { return mask_of(pattern, request, /*layer=*/0); });
  AttentionOptions with = options(2, true);
  const Tensor x = engine.random({1, kLength, kWidth}, "x");
  const Floats causal = Layer(engine, "attn", with).of(x, nullptr, nullptr);
  with.mask = &mask;
  const Layer layer(engine, "attn", with);
  const Floats whole = layer.of(x, nullptr, nullptr);
  EXPECT_NE(whole, causal);
  KvCache cache;
  cache.k = empty(engine.arena, {kLength, 2, kDim}, Dtype::f32, Category::activations);
  cache.v = empty(engine.arena, {kLength, 2, kDim}, Dtype::f32, Category::activations);
  Floats pieces;
  for (const auto& [first, last] : {std::pair{0, 2}, {2, 3}, {3, 4}, {4, 7}}) {
    const Tensor piece = x.view({kLength, kWidth}).slice(first, last).view({1, last - first, kWidth});
    const Floats y = layer.of(piece, nullptr, &cache);
    pieces.insert(pieces.end(), y.begin(), y.end());
  }
  expect_close(pieces, whole);
}

TEST_F(SelfAttentionTest, ACacheTakesOneSequenceWithoutGradients) {
  const Layer layer(engine, "attn", options(2, false));
  KvCache cache;
  cache.k = cache.v = empty(engine.arena, {kLength, 2, kDim}, Dtype::f32, Category::activations);
  EXPECT_THROW(layer.of(engine.random({2, 1, kWidth}, "two"), nullptr, &cache), Error);
  Tape tape({.record = true});
  EXPECT_THROW(layer.layer(tape.leaf(engine.random({1, 1, kWidth}, "x")), nullptr, &cache), Error);
}

}  // namespace
}  // namespace athanor::tests::attention_test
