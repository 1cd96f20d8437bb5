// Generation with the key/value cache against the plain forward pass.
#include "athanor/evaluate/generate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "athanor/config/presets.h"
#include "support/engine.h"

namespace athanor::tests::generate_test {
namespace {

std::unique_ptr<Model> make_tiny(Engine& engine, const std::string& family) {
  ModelConfig config;
  config.model_type = family;
  config.num_hidden_layers = 2;
  config.hidden_size = 32;
  config.num_attention_heads = 4;
  config.num_key_value_heads = family == "llama" ? 2 : 4;
  config.vocab_size = 37;
  config.max_position_embeddings = 16;
  config.initializer_range = 0.3;  // far from uniform predictions
  config.bias = family == "gpt2";
  auto model = make_model(complete_model(config, 37, 16));
  model->allocate(engine.arena, Dtype::f32, false);
  model->initialize(5);
  return model;
}

// The greedy continuation by full forward passes over everything so far, without a cache.
std::vector<int32_t> without_cache(const Model& model, Engine& engine, std::vector<int32_t> ids,
                                   int64_t count) {
  std::vector<int32_t> made;
  for (int64_t i = 0; i < count; ++i) {
    Tensor input =
        empty(engine.arena, {1, static_cast<int64_t>(ids.size())}, Dtype::i32, Category::activations);
    copy_from_host(input, ids.data(), ids.size() * 4);
    Tape tape(PassContext{});
    const auto hidden = to_floats(model.hidden(tape, {.ids = input}, {}).value);
    const auto head = to_floats(model.head().value());
    const size_t width = static_cast<size_t>(model.config().hidden_size);
    int32_t best = 0;
    double best_logit = -1e30;
    for (int32_t v = 0; v < model.config().vocab_size; ++v) {
      double logit = 0;
      for (size_t c = 0; c < width; ++c)
        logit +=
            double(hidden[(ids.size() - 1) * width + c]) * double(head[static_cast<size_t>(v) * width + c]);
      if (logit > best_logit) {
        best_logit = logit;
        best = v;
      }
    }
    made.push_back(best);
    ids.push_back(best);
  }
  return made;
}

GenerateOptions greedy(int64_t max_tokens) {
  GenerateOptions options;
  options.max_tokens = max_tokens;
  options.sampling.temperature = 0.0;
  return options;
}

TEST(Generate, CacheGivesWhatTheFullForwardPassGives) {
  Engine engine(2);
  for (const char* family : {"llama", "gpt2"}) {
    const auto model = make_tiny(engine, family);
    const std::vector<int32_t> prompt = {3, 1, 4, 1, 5};
    EXPECT_EQ(generate(*model, engine.arena, prompt, greedy(11), [](int32_t) { return true; }),
              without_cache(*model, engine, prompt, 11))
        << family;
  }
}

TEST(Generate, GoesOnPastTheContext) {
  Engine engine;
  const auto model = make_tiny(engine, "llama");
  const std::vector<int32_t> prompt(40, 7);  // longer than the context of 16
  const auto made = generate(*model, engine.arena, prompt, greedy(50), [](int32_t) { return true; });
  EXPECT_EQ(made.size(), 50u);
}

TEST(Generate, SeedDecidesTheText) {
  Engine engine;
  const auto model = make_tiny(engine, "gpt2");
  const std::vector<int32_t> prompt = {1};
  GenerateOptions options;
  options.max_tokens = 30;
  const auto keep = [](int32_t) { return true; };
  const auto first = generate(*model, engine.arena, prompt, options, keep);
  EXPECT_EQ(first, generate(*model, engine.arena, prompt, options, keep));
  options.seed = 2;
  EXPECT_NE(first, generate(*model, engine.arena, prompt, options, keep));
}

TEST(Generate, StopsWhereItIsTold) {
  Engine engine;
  const auto model = make_tiny(engine, "gpt2");
  const std::vector<int32_t> prompt = {1, 2};
  const auto free_run = generate(*model, engine.arena, prompt, greedy(10), [](int32_t) { return true; });
  GenerateOptions options = greedy(10);
  options.stop_ids = {free_run[4]};
  const auto stopped = generate(*model, engine.arena, prompt, options, [](int32_t) { return true; });
  EXPECT_LE(stopped.size(), 4u);
  int calls = 0;
  generate(*model, engine.arena, prompt, greedy(10), [&](int32_t) { return ++calls < 3; });
  EXPECT_EQ(calls, 3);
}

TEST(Generate, RefusesBadPrompts) {
  Engine engine;
  const auto model = make_tiny(engine, "gpt2");
  const auto keep = [](int32_t) { return true; };
  EXPECT_THROW(generate(*model, engine.arena, {}, greedy(1), keep), Error);
  const std::vector<int32_t> high = {37};
  EXPECT_THROW(generate(*model, engine.arena, high, greedy(1), keep), Error);
}

}  // namespace
}  // namespace athanor::tests::generate_test
