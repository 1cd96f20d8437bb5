#include "athanor/data/batch.h"

#include <gmock/gmock.h>

#include <numeric>

#include "athanor/data/ledger.h"
#include "athanor/data/loader.h"
#include "data/fakes.h"

namespace athanor::tests::batch_test {
namespace {

using ::testing::HasSubstr;

class BatchTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    add("en", 0.7, 0, 400);
    add("code", 0.3, 10000, 150);
  }
  // Token i of the channel is id offset + i, so that an id tells where it came from.
  void add(const std::string& name, double weight, int32_t offset, int64_t num_tokens) {
    std::vector<int32_t> ids(static_cast<size_t>(num_tokens));
    std::iota(ids.begin(), ids.end(), offset);
    IndexedWriter writer(env_, path(name), 20000);
    writer.add_document(ids);
    writer.finish();
    channels_.emplace_back(ChannelOptions{name, weight, 8, 0.1, 20000},
                           std::make_shared<IndexedDataset>(path(name)), nullptr);
  }
  BatchReader reader(int64_t global_batch, int64_t micro_batch_size) const {
    return BatchReader(channels_, make_sampler(channels_, 1, global_batch), micro_batch_size);
  }
  std::vector<Channel> channels_;
};

// Documents of 5, 0, 12, 1 and 40 tokens, sequences of 8.
TEST_F(BatchTest, SaysWhereDocumentsBegin) {
  std::vector<int32_t> begins;  // of each token's document
  IndexedWriter writer(env_, path("documents"), 100);
  for (const int length : {5, 0, 12, 1, 40}) {
    begins.insert(begins.end(), static_cast<size_t>(length), static_cast<int32_t>(begins.size()));
    writer.add_document(std::vector<int32_t>(static_cast<size_t>(length), 7));
  }
  writer.finish();
  const auto tokens = std::make_shared<IndexedDataset>(path("documents"));
  ChannelOptions options{.name = "d", .seq_len = 8, .valid_fraction = 0, .vocab_size = 100};
  const auto starts_of = [&](bool across) {
    options.document_mask = !across;
    const std::vector<Channel> channels = {Channel(options, tokens, nullptr)};
    const BatchReader batches(channels, make_sampler(channels, 1, 7), 7);
    Batch batch;
    batches.read(1, 0, batch);
    for (size_t i = 0; i < batch.document_starts.size(); ++i) {
      const int64_t first = batches.sampler().sample(1, static_cast<int64_t>(i / 8)).sequence * 8;
      const int64_t begin = begins[static_cast<size_t>(first) + i % 8];
      EXPECT_EQ(batch.document_starts[i], std::max<int64_t>(0, begin - first))
          << "token " << i % 8 << " of " << first;
    }
    return batch.document_starts.size();
  };
  EXPECT_EQ(starts_of(false), 7U * 8);
  EXPECT_EQ(starts_of(true), 0U);
  EXPECT_EQ(tokens->document_of(0), 0);
  EXPECT_EQ(tokens->document_of(5), 2) << "the empty one before has no token";
  EXPECT_EQ(tokens->document_of(57), 4);
  EXPECT_THROW(tokens->document_of(58), Error);
}

TEST_F(BatchTest, HoldsTheSequencesOfItsSlots) {
  const BatchReader batches = reader(10, 4);
  ASSERT_EQ(batches.num_micro_batches(), 3);
  Batch batch;
  for (int64_t step = 1; step <= 20; ++step)
    for (int64_t micro_batch = 0; micro_batch < 3; ++micro_batch) {
      batches.read(step, micro_batch, batch);
      EXPECT_EQ(batch.step, step);
      EXPECT_EQ(batch.micro_batch, micro_batch);
      EXPECT_EQ(batch.first_index, micro_batch * 4);
      EXPECT_EQ(batch.num_sequences, micro_batch == 2 ? 2 : 4);
      ASSERT_EQ(batch.tokens.size(), static_cast<size_t>(batch.num_sequences * 8));
      ASSERT_EQ(batch.targets.size(), batch.tokens.size());
      for (int64_t b = 0; b < batch.num_sequences; ++b) {
        const Sample sample = batches.sampler().sample(step, batch.first_index + b);
        EXPECT_EQ(batch.channel_of[static_cast<size_t>(b)], sample.channel);
        for (int64_t t = 0; t < 8; ++t) {
          const auto at = static_cast<size_t>(b * 8 + t);
          EXPECT_EQ(batch.tokens[at], (sample.channel == 1 ? 10000 : 0) + sample.sequence * 8 + t);
          EXPECT_EQ(batch.targets[at], batch.tokens[at] + 1);
        }
      }
    }
}

// Whatever the micro batch, and whoever reads which micro-batches, a step is the same list of sequences.
TEST_F(BatchTest, AnySplitOfAStepSeesTheSameSequences) {
  const auto step_tokens = [&](int64_t micro_batch_size, int64_t step) {
    const BatchReader batches = reader(12, micro_batch_size);
    std::vector<int32_t> tokens;
    Batch batch;
    for (int64_t micro_batch = 0; micro_batch < batches.num_micro_batches(); ++micro_batch) {
      batches.read(step, micro_batch, batch);
      tokens.insert(tokens.end(), batch.tokens.begin(), batch.tokens.end());
    }
    return tokens;
  };
  for (const int64_t step : {1, 2, 50, 1000})
    for (const int64_t micro_batch_size : {2, 3, 5, 12, 20})
      EXPECT_EQ(step_tokens(micro_batch_size, step), step_tokens(1, step));
}

TEST_F(BatchTest, TheLoaderGivesTheSameBatchesInOrder) {
  const BatchReader batches = reader(12, 3);
  for (const int depth : {1, 2, 4, 100}) {
    Loader loader(batches, 5, 9, {1, 3}, depth);
    EXPECT_EQ(loader.num_batches(), 10);
    Batch expected;
    const Batch* previous = nullptr;
    std::vector<int32_t> previous_tokens;
    for (int64_t step = 5; step <= 9; ++step)
      for (const int64_t micro_batch : {1, 3}) {
        if (previous != nullptr) {
          EXPECT_EQ(previous->tokens, previous_tokens);
        }
        const Batch& batch = loader.next();
        batches.read(step, micro_batch, expected);
        EXPECT_EQ(batch.step, step);
        EXPECT_EQ(batch.micro_batch, micro_batch);
        EXPECT_EQ(batch.tokens, expected.tokens);
        EXPECT_EQ(batch.targets, expected.targets);
        EXPECT_EQ(batch.channel_of, expected.channel_of);
        previous = &batch;
        previous_tokens = batch.tokens;
      }
    EXPECT_THROW(loader.next(), Error);
  }
}

TEST_F(BatchTest, ALoaderMayBeLeftAtAnyTime) {
  const BatchReader batches = reader(12, 3);
  { const Loader loader(batches, 1, 1000000, {0, 1, 2, 3}); }
  Loader loader(batches, 1, 1000000, {0, 1, 2, 3}, 2);
  loader.next();
  Loader none(batches, 10, 9, {0});
  EXPECT_EQ(none.num_batches(), 0);
  EXPECT_THROW(none.next(), Error);
}

TEST_F(BatchTest, ErrorsOfTheReadingThreadReachTheCaller) {
  std::vector<Channel> channels;
  channels.emplace_back(ChannelOptions{"small", 1.0, 8, 0.1, 100},
                        std::make_shared<IndexedDataset>(path("en")), nullptr);
  const BatchReader batches(channels, make_sampler(channels, 1, 4), 4);
  Loader loader(batches, 1, 100, {0});
  const auto drain = [&] {
    for (int i = 0; i < 100; ++i) loader.next();
  };
  EXPECT_THAT(failure_of(drain), HasSubstr("channel 'small'"));
  EXPECT_THAT(failure_of(drain), HasSubstr("channel 'small'"));
}

TEST_F(BatchTest, MisuseIsRefused) {
  EXPECT_THROW(reader(10, 0), Error);
  const BatchReader batches = reader(10, 4);
  Batch batch;
  EXPECT_THROW(batches.read(1, 3, batch), Error);
  EXPECT_THROW(batches.read(0, 0, batch), Error);
  EXPECT_THROW(BatchReader(std::span(channels_).first(1), make_sampler(channels_, 1, 10), 4), Error);
}

// Ids 20 and 250 of the channel "en", whose ids are its tokens' numbers, are not in a vocabulary that ends before them.
class DamagedBatches : public BatchTest {
 protected:
  std::vector<Channel> damaged() const {
    std::vector<int32_t> ids(400);
    std::iota(ids.begin(), ids.end(), 0);
    ids[20] = ids[256] = 19999;  // 256: the last token of one sequence and the first of the next one
    IndexedWriter writer(env_, path("bad"), 20000);
    writer.add_document(ids);
    writer.finish();
    std::vector<Channel> channels;
    channels.emplace_back(ChannelOptions{"en", 1.0, 8, 0.1, 19000},
                          std::make_shared<IndexedDataset>(path("bad")), nullptr);
    return channels;
  }
};

TEST_F(DamagedBatches, AreReportedWithTheirPlaceOrAnError) {
  const std::vector<Channel> channels = damaged();
  const int64_t all = channels[0].num_train_sequences();
  const BatchReader reader(channels, make_sampler(channels, 1, all), all, OnDamage::report);
  Batch batch;
  reader.read(1, 0, batch);
  std::vector<DamagedToken> expected;
  for (int64_t slot = 0; slot < all; ++slot) {
    const int64_t sequence = reader.sampler().sample(1, slot).sequence;
    const bool first = sequence == 2, second = sequence == 31 || sequence == 32;
    if (first || second)
      expected.push_back({"en", path("bad") + ".bin", first ? 40 : 512,
                          first ? "token 20 is id 19999, expected ids below the vocabulary of 19000"
                                : "token 256 is id 19999, expected ids below the vocabulary of 19000"});
    for (int64_t t = 0; t < 8; ++t) {
      const auto i = static_cast<size_t>(slot * 8 + t);
      EXPECT_EQ(batch.tokens[i], first || second ? 0 : sequence * 8 + t);
      EXPECT_EQ(batch.targets[i], first || second ? -1 : sequence * 8 + t + 1);
    }
  }
  EXPECT_EQ(batch.damage, expected);
  EXPECT_EQ(expected.size(), 3u);
  const BatchReader strict(channels, make_sampler(channels, 1, all), all);
  EXPECT_THROW(strict.read(1, 0, batch), Error);
}

// From its step on, by the file's name in whatever folder; what was read before has nothing of it.
TEST_F(DamagedBatches, InQuarantineAreLeftOutInTheirPlaces) {
  const std::vector<Channel> channels = damaged();
  const int64_t all = channels[0].num_train_sequences();
  const auto reader_of = [&](const std::vector<Quarantine>& list) {
    return BatchReader(channels, make_sampler(channels, 1, all, {}, list), all, OnDamage::report);
  };
  const BatchReader all_known =
      reader_of({{.step = 2, .channel = "en", .file = "elsewhere/bad.bin", .offset = 512},
                 {.step = 1, .channel = "en", .file = "bad.bin", .offset = 40},
                 {.step = 1, .channel = "en", .file = "good.bin", .offset = 100},
                 {.step = 1, .channel = "code", .file = "bad.bin", .offset = 100}});
  Batch first, second;
  all_known.read(1, 0, first);
  EXPECT_EQ(first.damage.size(), 2u);  // of the token that two sequences share
  all_known.read(2, 0, second);
  EXPECT_THAT(second.damage, ::testing::IsEmpty());
  const Sampler plain = make_sampler(channels, 1, all);
  int64_t left_out = 0;
  for (int64_t slot = 0; slot < all; ++slot) {
    const Sample sample = all_known.sampler().sample(2, slot);
    EXPECT_EQ(sample.sequence, plain.sample(2, slot).sequence);
    EXPECT_EQ(sample.quarantined, sample.sequence == 2 || sample.sequence == 31 || sample.sequence == 32);
    left_out += sample.quarantined;
    EXPECT_EQ(second.targets[static_cast<size_t>(slot * 8)] == -1, sample.quarantined);
  }
  EXPECT_EQ(left_out, 3);
  const LedgerReport ledger = check_ledger(all_known.sampler(), 1, 3);
  EXPECT_EQ(ledger.quarantined, 1 + 3 + 3);
  EXPECT_EQ(ledger.samples, 3 * all - 7);
  EXPECT_EQ(ledger.channels[0].whole_epochs, 3);
  EXPECT_EQ(ledger.channels[0].quarantined, 7);
  EXPECT_NE(ledger.hash, check_ledger(plain, 1, 3).hash);
}

}  // namespace
}  // namespace athanor::tests::batch_test
