// Model::flops_per_token against the multiply-adds of the products that a forward and backward pass runs.
#include <gtest/gtest.h>

#include <cstdio>

#include "athanor/base/meter.h"
#include "athanor/config/presets.h"
#include "athanor/models/model.h"
#include "support/engine.h"

namespace athanor::tests::flops_test {
namespace {

// Operations a token, counted twice a multiply-add, of a pass over sequences on the null device, where
// kernels count and compute nothing. Matrix products by the sizes in their lines "MxNxK". Of attention the scores and
// the weighted sum, over the keys up to each token itself, forward once and backward twice.
struct Counted {
  double products = 0.0, attention = 0.0;
};

constexpr const char* kWindow = "causal + window:32";

Counted count(const ModelConfig& config, int64_t length) {
  constexpr int64_t batch = 2;
  const auto queue = make_null_queue(Isa::generic);
  Arena arena(*queue);
  const auto model = make_model(config);
  model->allocate(arena, Dtype::bf16, /*with_master=*/false);
  for (Weight* weight : model->weights())
    weight->set_grad(empty(arena, weight->param().shape(), Dtype::f32, Category::gradients));
  const Tensor ids = empty(arena, {batch, length}, Dtype::i32, Category::activations);
  Meter meter;
  queue->set_meter(&meter);
  Tape tape({.num_sequences = batch, .seq_len = length, .record = true});
  tape.backward(model->loss(tape, {.ids = ids, .targets = ids}, {}));
  queue->set_meter(nullptr);
  Counted counted;
  int64_t attention_calls = 0;
  for (const Meter::Line& line : meter.lines()) {
    double m = 0, n = 0, k = 0;
    if (line.kernel.starts_with("gemm.")) {
      EXPECT_EQ(std::sscanf(line.shape.c_str(), "%lfx%lfx%lf", &m, &n, &k), 3) << line.shape;
      counted.products += 2.0 * m * n * k * static_cast<double>(line.calls);
    }
    if (line.kernel == "attention.forward") attention_calls += line.calls;
  }
  EXPECT_EQ(attention_calls, config.num_hidden_layers);
  double pairs = 0;  // of a query and a key it sees, in one head of one sequence
  const int64_t window = config.attention_pattern == kWindow ? 32 : length;
  for (int64_t query = 0; query < length; ++query) pairs += static_cast<double>(std::min(query + 1, window));
  counted.attention =
      2.0 * 2.0 * 3.0 * pairs *
      static_cast<double>(batch * config.num_attention_heads * config.head_dim * attention_calls);
  counted.products /= static_cast<double>(batch * length);
  counted.attention /= static_cast<double>(batch * length);
  return counted;
}

void expect_counted(const ModelConfig& config) {
  constexpr int64_t length = 256;
  const Counted counted = count(config, length);
  const double products = make_model(config)->flops_per_token(0);
  const double attention = make_model(config)->flops_per_token(length) - products;
  EXPECT_NEAR(products, counted.products, 1e-9 * counted.products) << "products of " << config.model_type;
  // Half the length of keys a token on average, where half a key more is seen.
  EXPECT_NEAR(attention, counted.attention, counted.attention / length)
      << "attention of " << config.model_type;
}

TEST(FlopsPerToken, OfLlamaAreThoseOfItsProducts) {
  ModelConfig config = preset_model("llama-tiny");  // two groups of queries
  ASSERT_LT(config.num_key_value_heads, config.num_attention_heads);
  for (const bool tied : {false, true}) {
    config.tie_word_embeddings = tied;  // the head computes either way
    expect_counted(config);
  }
  config.attention_pattern = kWindow;
  expect_counted(config);
}

TEST(FlopsPerToken, OfGpt2AreThoseOfItsProducts) {
  const ModelConfig config = preset_model("gpt2-tiny");
  ASSERT_TRUE(config.tie_word_embeddings);
  expect_counted(config);
}

// Of the experts those that a token goes to; routers, shared experts and dense layers by all.
TEST(FlopsPerToken, OfExpertsAreThoseOfTheirProducts) {
  for (const char* preset : {"moe-tiny", "moe-tiny-bias"}) expect_counted(preset_model(preset));
}

TEST(FlopsPerToken, OfTheSmallestGpt2AreTheKnownNumber) {
  const double products = 12.0 * (4 * 768 * 768 + 2 * 768 * 3072) + 50257.0 * 768,
               attention = 12.0 * 1024 * 768;
  EXPECT_DOUBLE_EQ(make_model(preset_model("gpt2-124m"))->flops_per_token(1024),
                   6 * products + 6 * attention);
}

}  // namespace
}  // namespace athanor::tests::flops_test
