#include "athanor/data/loss_mask.h"

#include <gmock/gmock.h>

#include "athanor/data/batch.h"
#include "athanor/data/indexed_dataset.h"
#include "data/fakes.h"

namespace athanor::tests::loss_mask_test {
namespace {

using ::testing::HasSubstr;
using Mask = std::vector<uint8_t>;

class LossMaskTest : public FolderTest {
 protected:
  // Documents as masks; ids count from 0.
  std::shared_ptr<const IndexedDataset> tokens(const std::string& name, const std::vector<Mask>& documents) {
    IndexedWriter writer(env_, path(name), 30000);
    int32_t next = 0;
    for (const Mask& mask : documents) {
      std::vector<int32_t> ids(mask.size());
      for (int32_t& id : ids) id = next++;
      writer.add_document(ids, std::nullopt, mask);
    }
    writer.finish();
    return std::make_shared<IndexedDataset>(path(name));
  }
};

// A mask with no rule to it, from the digits of a square.
Mask some_mask(size_t size, uint64_t salt) {
  Mask mask(size);
  for (size_t i = 0; i < size; ++i) mask[i] = (i * i * 2654435761u + salt * 97 + i / 7) >> 13 & 1;
  return mask;
}

TEST_F(LossMaskTest, ReadsBackAnyRange) {
  for (const size_t size : {1, 63, 64, 65, 200, 70000}) {
    const Mask first = some_mask(size, 1), second = some_mask(size / 2, 2);
    // Tokens that all count before the first that does not, an empty document and a document without a mask.
    Mask all(100, 1);
    all.insert(all.end(), first.begin(), first.end());
    all.insert(all.end(), second.begin(), second.end());
    IndexedWriter writer(env_, path("t"), 300);
    writer.add_document(std::vector<int32_t>(100, 7));
    writer.add_document(std::vector<int32_t>(size, 8), std::nullopt, first);
    writer.add_document({});
    writer.add_document(std::vector<int32_t>(size / 2, 9), std::nullopt, second);
    writer.finish();
    const IndexedDataset dataset(path("t"));
    ASSERT_EQ(dataset.has_loss_mask(), std::find(all.begin(), all.end(), 0) != all.end());
    Mask found(all.size());
    dataset.read_loss_mask(0, found);
    EXPECT_EQ(found, all);
    for (const size_t from : {size_t{1}, size_t{63}, size_t{64}, size_t{99}, all.size() - 1}) {
      Mask part(all.size() - from);
      dataset.read_loss_mask(static_cast<int64_t>(from), part);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(from)));
    }
    if (!dataset.has_loss_mask()) continue;
    EXPECT_EQ(dataset.loss_mask()->num_counted(), std::count(all.begin(), all.end(), 1));
    EXPECT_NO_THROW(dataset.loss_mask()->check_count());
    EXPECT_THROW(dataset.read_loss_mask(1, found), Error);
    EXPECT_THROW(dataset.read_loss_mask(-1, found), Error);
  }
}

TEST_F(LossMaskTest, ItsBytesAreThoseOfTheHeader) {
  tokens("t", {{1, 0, 1}, {0, 1}});
  std::string expected = "ATHLMASK";
  for (const uint64_t word : {0b10101, 5, 3}) expected.append(reinterpret_cast<const char*>(&word), 8);
  EXPECT_EQ(env_.read_text(path("t.loss_mask")), expected);
  EXPECT_EQ(env_.list(folder_), (std::vector<std::string>{"t.bin", "t.idx", "t.loss_mask"}));
}

TEST_F(LossMaskTest, ThereIsNoneWhereAllTokensCount) {
  tokens("t", {{1, 0}});
  const std::string with = IndexedDataset(path("t")).full_hash();
  tokens("t", {{1, 1}});
  EXPECT_FALSE(env_.exists(path("t.loss_mask"))) << "that of the files before stays";
  EXPECT_NE(IndexedDataset(path("t")).full_hash(), with);
}

TEST_F(LossMaskTest, HashesTellMasksApart) {
  tokens("a", {{1, 0, 1}});
  tokens("b", {{1, 1, 0}});
  const IndexedDataset a(path("a")), b(path("b"));
  EXPECT_NE(a.full_hash(), b.full_hash());
  EXPECT_NE(a.quick_hash(), b.quick_hash());
}

TEST_F(LossMaskTest, BadMasksAreRefused) {
  IndexedWriter writer(env_, path("w"), 300);
  EXPECT_THAT(failure_of([&] {
                writer.add_document(std::vector<int32_t>{1, 2}, std::nullopt, Mask{1});
              }),
              HasSubstr("a loss mask of 1 values, expected one for each of 2 tokens"));
  EXPECT_THAT(failure_of([&] {
                writer.add_document(std::vector<int32_t>{1, 2}, std::nullopt, Mask{1, 2});
              }),
              HasSubstr("got 2 in a loss mask"));
  writer.add_document(std::vector<int32_t>{1, 2}, std::nullopt, Mask{0, 1});
  writer.finish();
  EXPECT_EQ(IndexedDataset(path("w")).num_tokens(), 2) << "a refused document left something behind";

  tokens("t", {{1, 0, 1}});
  const std::string good = env_.read_text(path("t.loss_mask"));
  std::string others = good, too_many = good, outside = good;
  others[16] = 4;    // tokens
  too_many[24] = 4;  // that count
  outside[8] = 13;   // a bit of a fourth token
  for (const std::string& bad :
       {good + "x", good.substr(0, 24), std::string("unrelated"), std::string(), others, too_many, outside}) {
    write("t.loss_mask", bad);
    EXPECT_THAT(failure_of([&] { IndexedDataset{path("t")}; }), HasSubstr("t.loss_mask")) << bad.size();
  }
  std::string wrong = good;
  wrong[8] = 7;
  write("t.loss_mask", wrong);
  const IndexedDataset dataset(path("t"));
  EXPECT_THAT(failure_of([&] { dataset.loss_mask()->check_count(); }),
              HasSubstr("3 tokens count, expected 2"));
}

// A target is left out where its own token does not count, wherever the cut of the sequences falls.
TEST_F(LossMaskTest, BatchesHaveNoTargetsThere) {
  const Mask mask = some_mask(50, 3);
  const std::vector<Channel> channels = {Channel(
      {.name = "c", .seq_len = 7, .valid_fraction = 0.3, .vocab_size = 30000}, tokens("t", {mask}), nullptr)};
  const int64_t all = channels[0].num_train_sequences();
  const BatchReader reader(channels, make_sampler(channels, 1, all), all);
  Batch batch;
  reader.read(1, 0, batch);
  size_t left_out = 0;
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    const int32_t next = batch.tokens[i] + 1;  // ids are places
    const bool counts = mask[static_cast<size_t>(next)] != 0;
    EXPECT_EQ(batch.targets[i], counts ? next : kNoTarget) << "token " << next;
    left_out += counts ? 0 : 1;
  }
  EXPECT_GT(left_out, 0U);
  EXPECT_LT(left_out, batch.tokens.size());

  const int64_t first = channels[0].valid_window(0).first;
  std::vector<int32_t> targets(7, 1);
  channels[0].mask_valid_targets(first, targets);
  int64_t count = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    const bool counts = mask[static_cast<size_t>(first) + 1 + i] != 0;
    EXPECT_EQ(targets[i], counts ? 1 : kNoTarget);
    count += counts ? 1 : 0;
  }
  EXPECT_EQ(channels[0].count_valid(first + 1, first + 8), count);
}

// Bits per byte are of what is predicted: one byte a token here.
TEST_F(LossMaskTest, OnlyCountedTokensHaveBytes) {
  IndexedWriter writer(env_, path("t"), 257);
  const Mask mask = {1, 1, 0, 0, 1, 0, 1, 1};
  writer.add_document(std::vector<int32_t>{65, 66, 67, 68, 69, 70, 71, 72}, 8, mask);
  writer.finish();
  const auto table = std::make_shared<TokenBytes>(std::make_shared<ByteTokenizer>());
  const Channel channel({.name = "c", .weight = 0, .seq_len = 2, .valid_fraction = 1, .vocab_size = 257},
                        std::make_shared<IndexedDataset>(path("t")), table);
  EXPECT_EQ(channel.valid_bytes_of(0, 8), 5);
  EXPECT_EQ(channel.valid_bytes_of(2, 4), 0);
  EXPECT_EQ(channel.valid_bytes_of(3, 7), 2);
}

}  // namespace
}  // namespace athanor::tests::loss_mask_test
