// Compressed gradients beside ZeRO, pipelines, contexts and experts: what is trained, saved and sent. What equals another run
// is rows of train/layouts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "athanor/config/validate.h"
#include "train/compressed_training.h"
#include "train/layouts/layout_case.h"
#include "train/saved_run.h"

namespace athanor::tests::compression_layouts_test {
namespace {

using testing::StartsWith;

// What is not refused here is trained in rows of train/layouts, beside every other axis.
TEST(CompressionLayouts, AreRefusedByNameWithSomeStagesOfZero) {
  for (const auto& [zero, shard] : {std::pair(0, 0), {1, 0}, {2, 0}, {3, 0}, {0, 2}, {1, 2}, {2, 2}, {3, 2}})
    for (const std::string kind : {"none", "bf16", "int8", "topk", "powersgd", "onebit-adam"}) {
      const Axes axes{.dp = 4, .zero = zero, .shard = shard};
      const std::string what = kind + " " + text_of(axes);
      const bool is_of_blocks = kind == "none" || kind == "bf16" || kind == "int8";
      const bool is_legal = is_of_blocks ? zero > 0 || shard == 0 : zero <= 1 && shard == 0;
      try {
        validate(in_axes(compressed_gently(kind), axes));
        EXPECT_TRUE(is_legal) << what;
      } catch (const ConfigError& error) {
        EXPECT_FALSE(is_legal) << what;
        EXPECT_THAT(error.what(),
                    StartsWith(is_of_blocks ? "parallel.shard_degree: " : "compression.method: "));
      }
    }
}

// Residuals of every rank that sums a gradient, those of experts among them, are in the checkpoint.
TEST(CompressionLayouts, ResidualsAreSavedOfEveryRankThatSums) {
  for (const std::string kind : {"int8", "topk", "powersgd", "onebit-adam"}) {
    const SavedRun saved =
        save_after(in_axes(compressed_gently(kind, "moe_bias"), {.dp = 2, .cp = 2, .ep = 2}), 3);
    const Checkpoint checkpoint = Checkpoint::open(system_env(), saved.folder);
    int residuals = 0, of_experts = 0, factors = 0;
    for (const TensorEntry& entry : checkpoint.tensors()) {
      const bool expert = entry.name.find("experts") != std::string::npos;
      residuals += entry.name.starts_with("error_feedback.3.") ? 1 : 0;
      of_experts += expert && entry.name.starts_with("error_feedback.1.") ? 1 : 0;
      if (!expert || !entry.name.starts_with("factor.")) continue;
      ++factors;
      EXPECT_EQ(entry.shape[0], 8) << "of every expert";
    }
    EXPECT_GT(residuals, 0) << "of the last of dp x cp ranks";
    EXPECT_EQ(of_experts, 3) << "gate, up and down of the last of edp ranks";
    EXPECT_EQ(factors, kind == "powersgd" ? 3 : 0);
  }
}

// Each part of a matrix that tp cuts has a factor.
TEST(CompressionLayouts, FactorsAreSavedOfEveryPartOfAMatrix) {
  const SavedRun saved = save_after(in_axes(compressed_gently("powersgd", "gpt2"), {.dp = 2, .tp = 2}), 1);
  const Checkpoint checkpoint = Checkpoint::open(system_env(), saved.folder);
  int parts = 0;
  for (const TensorEntry& entry : checkpoint.tensors()) {
    if (!entry.name.starts_with("factor.")) continue;
    EXPECT_EQ(entry.shape.dims(), 3) << entry.name;
    EXPECT_EQ(entry.shape[0], 2) << entry.name;
    ++parts;
  }
  EXPECT_GT(parts, 0);
}

// That the ranks that sum gradients of these parameters have sent each other so many bytes at the end.
void expect_sent(const Config& config, ParameterGroups Groups::*of, int64_t bytes) {
  run_layout(config, {.end = [&](Training& training, TrainState&, World&) {
               EXPECT_EQ((training.groups().*of).sum->traffic().total().bytes, bytes)
                   << config.compression.method;
             }});
}

// Of a rank's parts R and C: 2 (n-1)/n 4 r (R + C) bytes each, and what is not compressed as f32.
TEST(CompressionLayouts, PartsOfMatricesSendTheDocumentedBytes) {
  Config config = in_axes(compressed_gently("powersgd"), {.dp = 2, .tp = 2});
  config.compression.rank = 2;
  config.model.vocab_size = 44;  // two halves without padding
  const ModelConfig& m = config.model;
  const int64_t head = m.hidden_size / m.num_attention_heads, q = m.hidden_size / 2,
                kv = m.num_key_value_heads * head / 2, ffn = m.intermediate_size / 2;
  const int64_t factors = 2 * (2 * (m.vocab_size / 2 + m.hidden_size) +
                               m.num_hidden_layers * (2 * (q + m.hidden_size) + 2 * (kv + m.hidden_size) +
                                                      3 * (ffn + m.hidden_size))),
                vectors = (2 * m.num_hidden_layers + 1) * m.hidden_size;
  const int64_t losses = 8 * static_cast<int64_t>(MicroBatchLosses::count(4, 2));  // 2 (n-1)/n = 1
  expect_sent(config, &Groups::dense, config.train.steps * (4 * (factors + vectors) + losses));
}

// What crosses the wire between the ranks with the same experts (docs/compression.md).
TEST(CompressionLayouts, ExpertsSendTheDocumentedBytes) {
  constexpr int64_t kCopies = 2, kExperts = 4;  // edp; of a rank
  for (const char* kind : {"int8", "powersgd", "onebit-adam"}) {
    Config config = in_axes(compressed_gently(kind, "moe_bias"), {.dp = 4, .ep = 2});
    config.compression.rank = 2;
    const ModelConfig& m = config.model;
    const int64_t matrix = m.moe_intermediate_size * m.hidden_size,
                  layers = m.num_hidden_layers - m.first_k_dense_replace;
    const auto codes = [&](int64_t bytes) {
      const int64_t blocks = 3 * layers * ((kExperts * matrix + 255) / 256);
      return 2 * (kCopies - 1) * ((blocks + kCopies - 1) / kCopies) * bytes;
    };
    const auto floats = [&](int64_t count) { return 2 * (kCopies - 1) * 4 * count / kCopies; };
    const int64_t compressed_steps = config.train.steps - config.compression.warmup_steps,
                  whole = floats(3 * layers * kExperts * matrix);
    int64_t of_step = codes(260), squares = 0;
    if (std::string(kind) == "powersgd")
      of_step = floats(3 * layers * kExperts * 2 * (m.moe_intermediate_size + m.hidden_size));
    if (std::string(kind) == "onebit-adam") {
      of_step = codes(36);
      squares = floats(2 * 3 * layers);  // f64 of the norm, which nobody's sum has
    }
    expect_sent(config, &Groups::expert,
                compressed_steps * (of_step + squares) + config.compression.warmup_steps * whole);
  }
}

}  // namespace
}  // namespace athanor::tests::compression_layouts_test
