// How many bytes a block keeps for its backward pass, by hand; tests/ops/saved_bytes_test.cpp has the operations one
// by one. B sequences of S tokens (N = B S), H heads of D and K of keys, width C = H D, hidden width F; T bytes an
// element.
#include <gtest/gtest.h>

#include "athanor/config/presets.h"
#include "athanor/config/recompute.h"
#include "athanor/models/model.h"
#include "support/engine.h"

namespace athanor::tests::block_bytes_test {
namespace {

constexpr int64_t B = 2, S = 16, H = 4, K = 2, D = 16, C = H * D, F = 96, N = B * S;  // multiples of 64 bytes

ModelConfig one_block(const std::string& family, double dropout) {
  ModelConfig config;
  config.model_type = family;
  config.num_hidden_layers = 1;
  config.hidden_size = C;
  config.num_attention_heads = H;
  config.num_key_value_heads = family == "gpt2" ? H : K;
  config.intermediate_size = F;
  config.dropout = dropout;
  return complete_model(config, 41, S);
}

class BlockBytes : public ::testing::TestWithParam<Dtype> {
 protected:
  int64_t held(const ModelConfig& config, const std::string& recompute) {
    Engine engine;
    const auto model = make_model(config);
    model->allocate(engine.arena, dtype, /*with_master=*/false);
    model->initialize(1);
    Tape tape({.num_sequences = B, .seq_len = S, .record = true, .dropout = true});
    const ModelPart block{.first = 0, .last = 1, .embeds = false, .ends = false};
    model->run(block, tape, {}, tape.leaf(engine.random({B, S, C}, "x", 1.0f, dtype)),
               *parse_recompute(recompute));
    return static_cast<int64_t>(engine.arena.usage().current[static_cast<size_t>(Category::activations)]);
  }
  const Dtype dtype = GetParam();
  const int64_t T = static_cast<int64_t>(size_of(dtype));
};
INSTANTIATE_TEST_SUITE_P(All, BlockBytes, ::testing::Values(Dtype::f32, Dtype::bf16),
                         [](const auto& each) { return std::string(name_of(each.param)); });

// [N,C]: the block's input and its norm, the sum after attention and its norm; q and o. [N,K D]: k and v. [N,F]:
// gate, up and their product. A number per token of each norm and per row of attention. Dropout keeps nothing.
TEST_P(BlockBytes, Llama) {
  const int64_t expected = (6 * N * C + 2 * N * K * D + 3 * N * F) * T + (2 * N + N * H) * 4;
  for (const double dropout : {0.0, 0.1})
    EXPECT_EQ(held(one_block("llama", dropout), "none"), expected) << dropout;
}

// [N,C]: as above, with k and v of all heads. [N,F]: before and after gelu. Two numbers per token of each norm.
TEST_P(BlockBytes, Gpt2) {
  const int64_t expected = (8 * N * C + 2 * N * F) * T + (4 * N + N * H) * 4;
  for (const double dropout : {0.0, 0.1})
    EXPECT_EQ(held(one_block("gpt2", dropout), "none"), expected) << dropout;
}

// Norms, what attention and the activation function make are made again: [N,C] the input, the sum and q, [N,K D] k
// and v, [N,F] gate and up, or what gelu is given.
TEST_P(BlockBytes, Selective) {
  EXPECT_EQ(held(one_block("llama", 0.0), "selective"),
            (3 * N * C + 2 * N * K * D + 2 * N * F) * T + (2 * N + N * H) * 4);
  EXPECT_EQ(held(one_block("gpt2", 0.0), "selective"), (5 * N * C + N * F) * T + (4 * N + N * H) * 4);
}

TEST_P(BlockBytes, FullKeepsTheInput) {
  for (const char* family : {"llama", "gpt2"})
    EXPECT_EQ(held(one_block(family, 0.0), "full"), N * C * T) << family;
}

}  // namespace
}  // namespace athanor::tests::block_bytes_test
