// Scores of id sequences against the formula on logits made by hand.
#include "athanor/evaluate/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>

#include "athanor/comm/shm/thread.h"
#include "athanor/data/indexed_dataset.h"
#include "checkpoint/content.h"
#include "evaluate/tiny_model.h"

namespace athanor::tests::perplexity_test {
namespace {

struct Tiny {
  // The sum over the targets that count by a mask of ids.
  double by_hand(const std::vector<int32_t>& ids, const std::vector<uint8_t>& mask = {}) {
    Tensor input =
        empty(engine.arena, {1, static_cast<int64_t>(ids.size()) - 1}, Dtype::i32, Category::activations);
    copy_from_host(input, ids.data(), (ids.size() - 1) * 4);
    Tape tape(PassContext{});
    const auto hidden = to_floats(model->hidden(tape, {.ids = input}, {}).value);
    const auto head = to_floats(model->head().value());
    double sum = 0;
    for (size_t t = 0; t + 1 < ids.size(); ++t) {
      if (!mask.empty() && mask[t + 1] == 0) continue;
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

// Windows of five targets; the last one is shorter, and the third has no target that counts.
TEST(EvaluateChannels, LeavesOutWhatTheLossMaskLeavesOut) {
  Tiny tiny;
  const TestFolder folder;
  const std::vector<int32_t> ids = {1, 2, 3, 4, 22, 0, 7, 9, 3, 3, 1, 2, 8, 4, 4, 6, 1, 5};
  const std::vector<uint8_t> mask = {1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0};
  IndexedWriter writer(system_env(), folder.file("masked"), 23);
  writer.add_document(ids, 36, mask);
  writer.finish();
  const std::vector<Channel> channels = {
      Channel({.name = "masked", .weight = 0, .seq_len = 5, .valid_fraction = 1, .vocab_size = 23},
              std::make_shared<IndexedDataset>(folder.file("masked")), nullptr)};
  double expected = 0.0;
  for (int first = 0; first < 17; first += 5) {
    const int last = std::min(first + 6, 18);
    expected +=
        tiny.by_hand({ids.begin() + first, ids.begin() + last}, {mask.begin() + first, mask.begin() + last});
  }
  run_ranks(make_thread_worlds(1), [&](World& world) {
    for (const int64_t batch : {1, 3}) {
      const Evaluation found = evaluate_channels(held_out_passes(*tiny.model), tiny.engine.arena, channels,
                                                 world.all(), {.batch = batch});
      EXPECT_EQ(found.tokens, 8);
      EXPECT_NEAR(found.loss, expected / 8, 1e-5);
      EXPECT_EQ(found.channels[0].bytes, 16) << "two bytes a token";
    }
  });
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
