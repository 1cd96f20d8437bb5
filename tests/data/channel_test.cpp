#include "athanor/data/channel.h"

#include <gmock/gmock.h>

#include <numeric>

#include "data/fakes.h"

namespace athanor::tests::channel_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ChannelTest : public FolderTest {
 protected:
  // Token i of the stream is id i.
  std::shared_ptr<const IndexedDataset> counting(int64_t num_tokens) {
    std::vector<int32_t> ids(static_cast<size_t>(num_tokens));
    std::iota(ids.begin(), ids.end(), 0);
    IndexedWriter writer(env_, path("count"), 100000);
    writer.add_document(ids);
    writer.finish();
    return std::make_shared<IndexedDataset>(path("count"));
  }
  Channel make(int64_t num_tokens, int64_t seq_len, double valid_fraction, double weight = 1.0,
               int64_t vocab_size = 100000) {
    return Channel({"en", weight, seq_len, valid_fraction, vocab_size}, counting(num_tokens), nullptr);
  }
};

TEST_F(ChannelTest, HoldsOutTheLastPartRoundedUp) {
  EXPECT_EQ(make(1000, 4, 0.01).num_valid_tokens(), 10);
  EXPECT_EQ(make(1001, 4, 0.01).num_valid_tokens(), 11);
  EXPECT_EQ(make(100, 4, 0.07).num_valid_tokens(), 7);  // 0.07 * 100 is above 7 in binary
  EXPECT_EQ(make(20, 4, 0.01).num_valid_tokens(), 1);
  EXPECT_EQ(make(20, 4, 0.0).num_valid_tokens(), 0);
  EXPECT_EQ(make(20, 4, 0.0).num_valid_windows(), 0);
}

// Over many sizes: every token but the first is a target exactly once, in training or in validation, but for
// the rest at the end of the training part that is shorter than a sequence.
TEST_F(ChannelTest, EveryTokenIsATargetOnce) {
  for (const int64_t num_tokens : {9, 10, 33, 100, 257})
    for (const int64_t seq_len : {1, 3, 4, 7})
      for (const double valid_fraction : {0.0, 0.01, 0.1, 0.5}) {
        if (num_tokens * (1 - valid_fraction) < static_cast<double>(seq_len + 2)) continue;
        const Channel channel = make(num_tokens, seq_len, valid_fraction);
        std::vector<int> times(static_cast<size_t>(num_tokens), 0);
        std::vector<int32_t> ids(static_cast<size_t>(seq_len + 1));
        for (int64_t s = 0; s < channel.num_train_sequences(); ++s) {
          channel.read(channel.train_windows(s)[0].first, ids);
          EXPECT_EQ(ids[0], s * seq_len);
          for (size_t i = 1; i < ids.size(); ++i) ++times[static_cast<size_t>(ids[i])];
        }
        const int64_t trained = channel.num_train_sequences() * seq_len;
        EXPECT_LT(channel.num_train_tokens() - 1 - trained, seq_len);
        int64_t predicted = 0;
        for (int64_t w = 0; w < channel.num_valid_windows(); ++w) {
          const Window window = channel.valid_window(w);
          ASSERT_GE(window.targets, 1);
          ASSERT_LE(window.targets, seq_len);
          std::vector<int32_t> held_out(static_cast<size_t>(window.targets + 1));
          channel.read(window.first, held_out);
          for (size_t i = 1; i < held_out.size(); ++i) ++times[static_cast<size_t>(held_out[i])];
          predicted += window.targets;
        }
        EXPECT_EQ(predicted, channel.num_valid_targets());
        for (int64_t t = 0; t < num_tokens; ++t) {
          const bool left_out = t == 0 || (t > trained && t < channel.num_train_tokens());
          EXPECT_EQ(times[static_cast<size_t>(t)], left_out ? 0 : 1) << t << " of " << num_tokens;
        }
      }
}

TEST_F(ChannelTest, TooFewTokensAreNamed) {
  EXPECT_EQ(make(6, 4, 0.01).num_train_sequences(), 1);  // 5 to train on, 1 held out
  EXPECT_THAT(failure_of([&] { make(5, 4, 0.01); }),
              AllOf(HasSubstr("channel 'en'"), HasSubstr("got 4 tokens"), HasSubstr("at least 5")));
  EXPECT_THAT(failure_of([&] { make(0, 4, 0.01); }),
              AllOf(HasSubstr("channel 'en'"), HasSubstr("no tokens")));
  EXPECT_THROW(make(50, 0, 0.01), Error);
  EXPECT_THROW(make(50, 4, 1.5), Error);
  EXPECT_THROW(make(50, 4, std::nan("")), Error);
}

TEST_F(ChannelTest, AChannelOfWeightZeroIsOnlyEvaluated) {
  const Channel channel = make(10, 4, 1.0, 0.0);
  EXPECT_EQ(channel.num_train_sequences(), 0);
  EXPECT_EQ(channel.num_valid_targets(), 9);
  EXPECT_EQ(channel.num_valid_windows(), 3);
  EXPECT_EQ(channel.valid_window(2).first, 8);
  EXPECT_EQ(channel.valid_window(2).targets, 1);
  EXPECT_EQ(make(1, 4, 1.0, 0.0).num_valid_windows(), 0);
}

TEST_F(ChannelTest, IdsOutsideTheVocabularyAreNamed) {
  const Channel channel = make(100, 4, 0.1, 1.0, 50);
  std::vector<int32_t> ids(5);
  EXPECT_NO_THROW(channel.read(channel.train_windows(11)[0].first, ids));
  EXPECT_THAT(failure_of([&] { channel.read(channel.train_windows(12)[0].first, ids); }),
              AllOf(HasSubstr("channel 'en'"), HasSubstr("token 50"), HasSubstr("id 50"),
                    HasSubstr("vocabulary of 50")));
  std::string negative;
  for (const int32_t id : {1, -1, 2, 3, 4, 5}) negative.append(reinterpret_cast<const char*>(&id), 4);
  IndexedWriter writer(env_, path("neg"), 70000);
  writer.add_document(std::vector<int32_t>(6, 1));
  writer.finish();
  write("neg.bin", negative);
  const Channel bad({"bad", 1, 4, 0, 70000}, std::make_shared<IndexedDataset>(path("neg")), nullptr);
  EXPECT_THAT(failure_of([&] { bad.read(0, ids); }), AllOf(HasSubstr("token 1"), HasSubstr("id -1")));
}

TEST_F(ChannelTest, RangesAreChecked) {
  const Channel channel = make(50, 4, 0.1);
  std::vector<int32_t> ids(5);
  EXPECT_THROW(channel.train_windows(channel.num_train_sequences()), Error);
  EXPECT_THROW(channel.train_windows(-1), Error);
  EXPECT_THROW(channel.valid_window(channel.num_valid_windows()), Error);
  EXPECT_THROW(channel.valid_window(-1), Error);
  EXPECT_THROW(channel.read(48, ids), Error);
}

TEST_F(ChannelTest, CountsBytesOfText) {
  const auto bytes = std::make_shared<TokenBytes>(std::make_shared<ByteTokenizer>());
  IndexedWriter writer(env_, path("b"), 300);
  writer.add_document(std::vector<int32_t>{'a', 'b', 256, 'c', 256, 299});  // 256 special, 299 padding
  writer.finish();
  const Channel channel({"en", 1, 2, 0, 300}, std::make_shared<IndexedDataset>(path("b")), bytes);
  EXPECT_EQ(channel.bytes_of(0, 6), 3);
  EXPECT_EQ(channel.bytes_of(2, 3), 0);
  EXPECT_EQ(channel.bytes_of(1, 4), 2);
  EXPECT_EQ(channel.bytes_of(3, 3), 0);
  EXPECT_EQ(make(50, 4, 0.1).bytes_of(0, 10), std::nullopt);
}

TEST_F(ChannelTest, AStreamOfItsOwnIsHeldOutWhole) {
  IndexedWriter writer(env_, path("valid"), 100000);
  writer.add_document(std::vector<int32_t>{500, 501, 502, 503, 504});
  writer.add_document(std::vector<int32_t>{505, 506});
  writer.finish();
  const Channel channel({"en", 1.0, 4, /*valid_fraction=*/0.5, 100000}, counting(21), nullptr,
                        std::make_shared<IndexedDataset>(path("valid")));
  EXPECT_EQ(channel.num_train_tokens(), 21);
  EXPECT_EQ(channel.num_train_sequences(), 5);
  EXPECT_EQ(channel.num_valid_tokens(), 7);
  EXPECT_EQ(channel.num_valid_targets(), 6);
  ASSERT_EQ(channel.num_valid_windows(), 2);
  EXPECT_EQ(channel.valid_window(0).first, 0);
  EXPECT_EQ(channel.valid_window(1).first, 4);
  EXPECT_EQ(channel.valid_window(1).targets, 2);
  std::vector<int32_t> ids(3), starts(2);
  channel.read_valid(4, ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{504, 505, 506}));
  channel.valid_document_starts(4, starts);
  EXPECT_EQ(starts, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(channel.valid_bytes_of(0, 7), std::nullopt);
  EXPECT_THAT(failure_of([&] { channel.read_valid(5, ids); }), HasSubstr("valid"));
}

}  // namespace
}  // namespace athanor::tests::channel_test
