// Scores of id sequences against the formula on logits made by hand.
#include "athanor/evaluate/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>

#include "evaluate/tiny_model.h"

namespace athanor::tests::perplexity_test {
namespace {

struct Tiny {
  double by_hand(const std::vector<int32_t>& ids) {
    Tensor input =
        empty(engine.arena, {1, static_cast<int64_t>(ids.size()) - 1}, Dtype::i32, Category::activations);
    copy_from_host(input, ids.data(), (ids.size() - 1) * 4);
    Tape tape(PassContext{});
    const auto hidden = to_floats(model->hidden(tape, input, {}).value);
    const auto head = to_floats(model->head().value());
    double sum = 0;
    for (size_t t = 0; t + 1 < ids.size(); ++t) {
      std::vector<double> logits(23);
      double total = 0;
      for (size_t v = 0; v < 23; ++v) {
        for (size_t c = 0; c < 16; ++c) logits[v] += double(hidden[t * 16 + c]) * double(head[v * 16 + c]);
        total += std::exp(logits[v]);
      }
      sum += std::log(total) - logits[static_cast<size_t>(ids[t + 1])];
    }
    return sum;
  }
  Engine engine{2};
  std::unique_ptr<Model> model = make_tiny_model(engine);
};

TEST(ScoreIds, IsTheMeanOverAllPredictedTokens) {
  Tiny tiny;
  const std::vector<std::vector<int32_t>> sequences = {
      {1, 2, 3, 4}, {5}, {22, 0, 7, 9, 3, 3, 1, 2, 8, 4, 4, 6, 1}};
  const IdsScore score = score_ids(*tiny.model, tiny.engine.arena, sequences);
  EXPECT_EQ(score.tokens, 3 + 12);
  EXPECT_NEAR(score.loss, (tiny.by_hand(sequences[0]) + tiny.by_hand(sequences[2])) / 15.0, 1e-5);
}

TEST(ScoreIds, RefusesWhatItCannotScore) {
  Tiny tiny;
  Arena& arena = tiny.engine.arena;
  EXPECT_THROW(score_ids(*tiny.model, arena, {}), Error);
  EXPECT_THROW(score_ids(*tiny.model, arena, {{1}}), Error);
  EXPECT_THROW(score_ids(*tiny.model, arena, {{1, 23}}), Error);
  EXPECT_THROW(score_ids(*tiny.model, arena, {{1, -1}}), Error);
  EXPECT_THROW(score_ids(*tiny.model, arena, {std::vector<int32_t>(14, 1)}), Error);
}

TEST(ChannelScore, BitsPerByte) {
  ChannelScore score{.name = "en", .tokens = 10, .loss = std::log(2.0), .bytes = 40};
  EXPECT_DOUBLE_EQ(score.perplexity(), 2.0);
  EXPECT_DOUBLE_EQ(*score.bits_per_byte(), 0.25);
  score.bytes.reset();
  EXPECT_FALSE(score.bits_per_byte().has_value());
}

}  // namespace
}  // namespace athanor::tests::perplexity_test
