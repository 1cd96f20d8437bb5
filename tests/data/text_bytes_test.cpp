#include "athanor/data/text_bytes.h"

#include <gmock/gmock.h>

#include "data/fakes.h"

namespace athanor::tests::text_bytes_test {
namespace {

using ::testing::HasSubstr;

class TextBytesTest : public FolderTest {
 protected:
  // Documents as (ids, bytes of their text); -1: not told.
  std::shared_ptr<const IndexedDataset> tokens(
      const std::vector<std::pair<std::vector<int32_t>, int64_t>>& documents) {
    IndexedWriter writer(env_, path("t"), 257);
    for (const auto& [ids, bytes] : documents)
      writer.add_document(ids, bytes < 0 ? std::nullopt : std::optional(bytes));
    writer.finish();
    return std::make_shared<IndexedDataset>(path("t"));
  }
  std::shared_ptr<const TokenBytes> table_ = std::make_shared<TokenBytes>(std::make_shared<ByteTokenizer>());
};

TEST_F(TextBytesTest, WholeDocumentsCountTheirOwnBytes) {
  // A normalizer that takes two of three bytes away: nine bytes of text are three tokens.
  const auto file = tokens({{{65, 66, 67, 256}, 9}, {{65, 256}, 1}, {{65, 66, 256}, 4}});
  const TextBytes bytes(file, table_);
  EXPECT_EQ(bytes.of(0, 9), 14);
  EXPECT_EQ(bytes.of(0, 4), 9);
  EXPECT_EQ(bytes.of(4, 6), 1);
  EXPECT_EQ(bytes.of(4, 9), 5);
  EXPECT_EQ(bytes.of(3, 3), 0);
}

TEST_F(TextBytesTest, PartsCountTheirShare) {
  const auto file = tokens({{{65, 66, 67, 256}, 9}, {{65, 66, 256}, 4}});
  for (const auto& table : {table_, std::shared_ptr<const TokenBytes>()}) {
    const TextBytes bytes(file, table);
    EXPECT_EQ(bytes.of(0, 7), 13);
    if (table == nullptr) continue;  // then tokens are of one size, the end of text among them
    EXPECT_EQ(bytes.of(1, 3), 6);
    EXPECT_EQ(bytes.of(3, 4), 0);
    EXPECT_EQ(bytes.of(2, 5), 5);  // a third of nine and half of four
  }
}

TEST_F(TextBytesTest, WithoutThemTheTableCounts) {
  const auto file = tokens({{{65, 66, 256}, -1}, {{65, 256}, 7}});
  EXPECT_FALSE(env_.exists(path("t.text_bytes")));
  EXPECT_EQ(TextBytes(file, table_).of(0, 5), 3);
  EXPECT_EQ(TextBytes(file, nullptr).of(0, 5), std::nullopt);
}

TEST_F(TextBytesTest, TextBytesOfOtherTokensAreRefused) {
  tokens({{{65, 66, 256}, 2}});
  const std::string good = env_.read_text(path("t.text_bytes"));
  for (const std::string& bad : {good + "x", good.substr(0, 24), std::string("unrelated"), std::string()}) {
    write("t.text_bytes", bad);
    EXPECT_THAT(failure_of([&] { IndexedDataset{path("t")}; }), HasSubstr("t.text_bytes"));
  }
  // A writer that knows none takes away those of the files before.
  write("t.text_bytes", good);
  tokens({{{65, 256}, -1}});
  EXPECT_FALSE(env_.exists(path("t.text_bytes")));
}

}  // namespace
}  // namespace athanor::tests::text_bytes_test
