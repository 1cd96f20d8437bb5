#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "athanor/base/philox.h"
#include "athanor/data/batch.h"
#include "data/fakes.h"

namespace athanor::tests::packing_test {
namespace {

using ::testing::HasSubstr;
using Lengths = std::vector<int64_t>;

std::vector<int64_t> starts_of(const Lengths& lengths) {
  std::vector<int64_t> starts = {0};
  for (const int64_t length : lengths) starts.push_back(starts.back() + length);
  return starts;
}

// Lengths as those of documents: most are short, some are long.
Lengths some_lengths(size_t count, uint64_t salt, int64_t longest) {
  const RandomStream stream(salt, "lengths");
  Lengths lengths(count);
  for (size_t d = 0; d < count; ++d) {
    const uint32_t word = stream.word(d, 0);
    lengths[d] =
        static_cast<int64_t>((word >> 8) % static_cast<uint64_t>(word % 5 == 0 ? longest : 1 + longest / 9));
  }
  return lengths;
}

// Best-fit decreasing by the book, in quadratic time: how many places of each sequence are filled, sorted.
std::vector<int64_t> filled_by_the_book(const Lengths& lengths, int64_t seq_len) {
  std::vector<int64_t> rests, bins;
  for (const int64_t length : lengths) {
    const int64_t targets = std::max<int64_t>(length - 1, 0);
    for (int64_t whole = 0; whole < targets / seq_len; ++whole) bins.push_back(seq_len);
    if (targets % seq_len > 0) rests.push_back(targets % seq_len);
  }
  std::sort(rests.rbegin(), rests.rend());
  for (const int64_t rest : rests) {
    int64_t* best = nullptr;
    for (int64_t& bin : bins)
      if (bin + rest <= seq_len && (best == nullptr || bin > *best)) best = &bin;
    if (best == nullptr) best = &bins.emplace_back(0);
    *best += rest;
  }
  std::sort(bins.begin(), bins.end());
  return bins;
}

TEST(BestFit, FillsSequencesAsTheBookSays) {
  for (const int64_t seq_len : {1, 2, 3, 7, 63, 64, 65, 200, 5000})
    for (const uint64_t salt : {1, 2, 3}) {
      const Lengths lengths = some_lengths(400, salt, seq_len * 3 / 2 + 2);
      const BestFit packing(starts_of(lengths), seq_len);
      std::vector<int64_t> filled;
      for (int64_t s = 0; s < packing.num_sequences(); ++s) {
        filled.push_back(0);
        for (const Window& window : packing.windows(s)) filled.back() += window.targets;
      }
      std::sort(filled.begin(), filled.end());
      EXPECT_EQ(filled, filled_by_the_book(lengths, seq_len)) << seq_len << " " << salt;
    }
}

// Of each document every token but the first is a target once, from a window that begins inside the document.
TEST(BestFit, EveryTokenIsATargetOnce) {
  for (const int64_t seq_len : {1, 3, 10, 64}) {
    Lengths lengths = some_lengths(300, 7, 40);
    lengths.insert(lengths.end(), {0, 1, 2, seq_len, seq_len + 1, seq_len + 2, 3 * seq_len + 1, 0});
    const std::vector<int64_t> starts = starts_of(lengths);
    const BestFit packing(starts, seq_len);
    std::vector<int> times(static_cast<size_t>(starts.back()), 0);
    std::map<int64_t, std::vector<int64_t>> holders;  // of each token
    int64_t targets = 0;
    for (int64_t s = 0; s < packing.num_sequences(); ++s) {
      int64_t filled = 0, last = -1;
      for (const Window& window : packing.windows(s)) {
        const auto document =
            std::upper_bound(starts.begin(), starts.end(), window.first) - starts.begin() - 1;
        EXPECT_GT(document, last) << "documents of a sequence keep their order";
        last = document;
        EXPECT_GE(window.targets, 1);
        EXPECT_LT(window.first + window.targets, starts[static_cast<size_t>(document) + 1]);
        for (int64_t t = 0; t <= window.targets; ++t) {
          if (t > 0) ++times[static_cast<size_t>(window.first + t)];
          holders[window.first + t].push_back(s);
        }
        filled += window.targets;
      }
      EXPECT_LE(filled, seq_len);
      targets += filled;
    }
    EXPECT_EQ(targets, packing.num_targets());
    for (int64_t t = 0; t < starts.back(); ++t) {
      const bool is_first = std::find(starts.begin(), starts.end(), t) != starts.end();
      EXPECT_EQ(times[static_cast<size_t>(t)], is_first ? 0 : 1) << t;
      std::vector<int64_t> found = packing.sequences_with(t);
      std::sort(found.begin(), found.end());
      EXPECT_EQ(found, holders[t]) << t;
    }
    EXPECT_TRUE(packing.sequences_with(starts.back()).empty());
  }
}

TEST(BestFit, OddInputs) {
  EXPECT_EQ(BestFit({0}, 8).num_sequences(), 0);
  EXPECT_EQ(BestFit({0, 0, 1, 1}, 8).num_sequences(), 0) << "nothing to predict";
  EXPECT_EQ(BestFit({0, 9}, 8).windows(0), (std::vector<Window>{{0, 8}}));
  EXPECT_THROW(BestFit({0, 9}, 8).windows(1), Error);
  EXPECT_THROW(BestFit({0, 9}, 8).windows(-1), Error);
  EXPECT_THROW(BestFit({0, 9}, 0), Error);
  EXPECT_THROW(BestFit({}, 8), Error);
  // Rests of 5, 4, 3, 2 and 2 places: 5 + 3, 4 + 2 + 2.
  const BestFit packing(starts_of({3, 6, 5, 4, 3}), 8);
  ASSERT_EQ(packing.num_sequences(), 2);
  EXPECT_EQ(packing.windows(0), (std::vector<Window>{{3, 5}, {14, 3}}));
  EXPECT_EQ(packing.windows(1), (std::vector<Window>{{0, 2}, {9, 4}, {18, 2}}));
}

class PackedChannel : public FolderTest {
 protected:
  // Ids are places in the stream.
  Channel channel(const Lengths& lengths, int64_t seq_len, double valid_fraction, bool document_mask) {
    IndexedWriter writer(env_, path("p"), 60000);
    int32_t next = 0;
    for (const int64_t length : lengths) {
      std::vector<int32_t> ids(static_cast<size_t>(length));
      std::iota(ids.begin(), ids.end(), next);
      next += static_cast<int32_t>(length);
      writer.add_document(ids);
    }
    writer.finish();
    return Channel({"p", 1.0, seq_len, valid_fraction, 60000, document_mask, /*best_fit=*/true},
                   std::make_shared<IndexedDataset>(path("p")), nullptr);
  }
};

TEST_F(PackedChannel, BatchesHoldDocumentsAndPadding) {
  const Lengths lengths = some_lengths(90, 5, 20);
  const std::vector<int64_t> starts = starts_of(lengths);
  for (const bool document_mask : {false, true}) {
    const std::vector<Channel> channels = {channel(lengths, 16, 0.2, document_mask)};
    const int64_t all = channels[0].num_train_sequences(), end = channels[0].num_train_tokens();
    const BatchReader reader(channels, make_sampler(channels, 1, all), all);
    Batch batch;
    reader.read(1, 0, batch);
    ASSERT_EQ(batch.document_starts.empty(), !document_mask);
    std::vector<int> times(static_cast<size_t>(end), 0);
    int64_t targets = 0, padding = 0;
    for (size_t i = 0; i < batch.tokens.size(); ++i) {
      const int32_t token = batch.tokens[i], target = batch.targets[i];
      const int32_t place = static_cast<int32_t>(i % 16);
      if (target == kNoTarget) {
        ++padding;
        EXPECT_EQ(token, 0);
        if (document_mask) {  // it begins in padding
          const size_t start = i - i % 16 + static_cast<size_t>(batch.document_starts[i]);
          EXPECT_LE(start, i);
          EXPECT_EQ(batch.targets[start], kNoTarget);
        }
        continue;
      }
      ++targets;
      ++times[static_cast<size_t>(target)];
      EXPECT_EQ(target, token + 1);
      // A token sees the inputs of its own document, which follow one another up to it.
      if (document_mask) {
        const int32_t start = batch.document_starts[i];
        ASSERT_LE(start, place);
        const int32_t first = batch.tokens[i - static_cast<size_t>(place - start)];
        EXPECT_EQ(token - first, place - start);
        EXPECT_TRUE(start == 0 || batch.tokens[i - static_cast<size_t>(place - start) - 1] != first - 1);
      }
    }
    EXPECT_EQ(targets, channels[0].num_train_targets());
    EXPECT_EQ(targets + padding, all * 16);
    for (int64_t t = 0; t < end; ++t)
      EXPECT_EQ(times[static_cast<size_t>(t)],
                std::find(starts.begin(), starts.end(), t) == starts.end() ? 1 : 0);
  }
}

TEST_F(PackedChannel, ValidationLeavesOutFirstTokens) {
  const Lengths lengths = {30, 3, 1, 4, 9, 2};
  const Channel packed = channel(lengths, 4, 0.4, true);
  const std::vector<int64_t> starts = starts_of(lengths);
  int64_t counted = 0;
  for (int64_t w = 0; w < packed.num_valid_windows(); ++w) {
    const Window window = packed.valid_window(w);
    std::vector<int32_t> targets(static_cast<size_t>(window.targets), 5);
    packed.mask_valid_targets(window.first, targets);
    for (size_t i = 0; i < targets.size(); ++i) {
      const int64_t token = window.first + 1 + static_cast<int64_t>(i);
      const bool begins = std::find(starts.begin(), starts.end(), token) != starts.end();
      EXPECT_EQ(targets[i], begins ? kNoTarget : 5) << token;
      counted += begins ? 0 : 1;
    }
  }
  const int64_t first = packed.valid_window(0).first + 1;
  EXPECT_EQ(packed.count_valid(first, first + packed.num_valid_targets()), counted);
}

TEST_F(PackedChannel, WithoutADocumentToPredictItIsRefused) {
  EXPECT_THAT(failure_of([&] {
                channel({1, 1, 1}, 4, 0, true);
              }),
              HasSubstr("channel 'p': got no document of two tokens"));
}

// An id outside of the vocabulary leaves out the sequence that it is in, and from then on it is in quarantine.
TEST_F(PackedChannel, DamageIsNamedAndQuarantined) {
  const Channel good = channel({6, 4, 9, 5}, 8, 0, true);
  const std::vector<Channel> channels = {Channel({"p", 1.0, 8, 0, /*vocab_size=*/23, true, true},
                                                 std::make_shared<IndexedDataset>(path("p")), nullptr)};
  const int64_t all = channels[0].num_train_sequences();
  const BatchReader reader(channels, make_sampler(channels, 1, all), all, OnDamage::report);
  Batch batch;
  reader.read(1, 0, batch);
  ASSERT_EQ(batch.damage.size(), 1U);
  EXPECT_EQ(batch.damage[0].offset, 23 * 2);
  const std::vector<int64_t> of_token = channels[0].sequences_at(46);
  ASSERT_EQ(of_token.size(), 1U);
  const BatchReader after(channels, make_sampler(channels, 1, all, {}, {{1, "p", "p.bin", 46}}), all);
  after.read(1, 0, batch);
  for (int64_t b = 0; b < all; ++b) {
    const bool bad = reader.sampler().sample(1, b).sequence == of_token[0];
    EXPECT_EQ(batch.targets[static_cast<size_t>(b) * 8] == kNoTarget, bad);
  }
}

}  // namespace
}  // namespace athanor::tests::packing_test
