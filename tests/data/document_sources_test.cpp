// Where documents came from: written, read back, refused where damaged.
#include "athanor/data/provenance/document_sources.h"

#include <gmock/gmock.h>

#include <cstring>

#include "athanor/data/indexed_dataset.h"
#include "athanor/data/tokenize.h"
#include "data/fakes.h"

namespace athanor::tests::document_sources_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DocumentSourcesTest : public FolderTest {
 protected:
  std::string written(const std::vector<DocumentSource>& sources, int64_t num_tokens) {
    SourcesWriter writer(env_, path("x.sources"));
    for (const DocumentSource& source : sources) writer.add(source);
    writer.finish(num_tokens);
    return path("x.sources");
  }
  std::string refusal(const std::string& bytes, int64_t documents, int64_t tokens) {
    write("y.sources", bytes);
    return failure_of([&] { DocumentSources(path("y.sources"), documents, tokens).check_hash(); });
  }
  ByteTokenizer tokenizer_;
};

TEST_F(DocumentSourcesTest, AreReadAsTheyWereWritten) {
  constexpr int64_t kFar = int64_t{1} << 40;
  const std::vector<DocumentSource> all = {{"a.jsonl", 0, 1},
                                           {"a.jsonl", 2, 3},
                                           {"b/c.txt", 0, 0},
                                           {"d", 5, 7},
                                           {"d", kFar, kFar},
                                           {"d", kFar + 1, kFar + 9},
                                           {"d", 6, 8},
                                           {"a.jsonl", 17, 18},
                                           {"", 0, 1},
                                           {"d", 0xffffffff, 0},
                                           {"d", 0xfffffffe, 0xffffffff},
                                           {"\xff \n", 3, 0}};
  const DocumentSources sources(written(all, 99), std::ssize(all), 99);
  for (size_t d = 0; d < all.size(); ++d) EXPECT_EQ(sources.of(static_cast<int64_t>(d)), all[d]) << d;
  EXPECT_EQ(sources.num_files(), 7);
  EXPECT_NO_THROW(sources.check_hash());
  EXPECT_THAT(failure_of([&] { sources.of(12); }), HasSubstr("document 12, expected 0 to 11"));
  EXPECT_THAT(failure_of([&] { sources.of(-1); }), HasSubstr("document -1, expected 0 to 11"));
}

// By the bytes that the format says, built here by hand.
TEST_F(DocumentSourcesTest, TheFileIsWhatItsHeaderSays) {
  std::string expected = "ATHSRC01";
  const auto put = [&](auto value) { expected.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const uint32_t number : {0, 0, 2, 2, 0, 0}) put(number);
  for (const uint64_t number : {0, 0, 4, 5, 2, 1, 0, 0}) put(number);
  for (const uint64_t number : {1, 4}) put(number);
  expected += "abcd";
  for (const uint64_t number : {3, 50, 2, 2, 4}) put(number);
  Hash128 hash;
  hash.update(expected);
  const std::string file = env_.read_text(written({{"a", 4, 5}, {"a", 6, 7}, {"bcd", 0, 0}}, 50));
  EXPECT_EQ(file, expected + hash.hex());
}

TEST_F(DocumentSourcesTest, DamageIsRefusedByName) {
  const std::string file = env_.read_text(written({{"a", 4, 5}, {"a", 6, 7}, {"bcd", 0, 0}}, 50));
  EXPECT_EQ(refusal(file, 3, 50), "");
  EXPECT_THAT(refusal(file, 4, 50),
              AllOf(HasSubstr("y.sources"), HasSubstr("is of 50 tokens in 3 documents, expected 50 in 4")));
  EXPECT_THAT(refusal(file, 3, 51), HasSubstr("y.sources"));
  for (size_t size = 0; size < file.size(); ++size)
    EXPECT_NE(refusal(file.substr(0, size), 3, 50), "") << size;
  EXPECT_NE(refusal(file + "x", 3, 50), "");
  for (size_t at = 0; at < file.size(); ++at) {
    std::string wrong = file;
    wrong[at] = static_cast<char>(wrong[at] ^ 0x40);
    EXPECT_THAT(refusal(wrong, 3, 50), HasSubstr("y.sources")) << at;
  }
  // Counts that would overflow sums.
  for (size_t at = file.size() - 72; at < file.size() - 32; at += 8)
    for (const uint64_t count : {~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 61, uint64_t{1} << 59}) {
      std::string wrong = file;
      std::memcpy(wrong.data() + at, &count, sizeof count);
      EXPECT_THAT(refusal(wrong, 3, 50), HasSubstr("y.sources")) << at;
    }
}

TEST_F(DocumentSourcesTest, ABuildSaysFileRecordAndLine) {
  write("f/a.jsonl", "{\"text\":\"one\"}\n\n{\"text\":\"\"}\n{\"text\":\"two\"}\n");
  write("f/b.txt", "whole");
  write("f/sub/c.txt", "first\n<|endoftext|>\nsecond\n");
  write("g.csv", "id,text\n7,\"three\nlines\"\n8,last\n");
  build_token_file(env_, tokenizer_, {path("f"), path("g.csv")}, path("x"), {});
  const IndexedDataset dataset(path("x"));
  const auto sources = dataset.open_sources();
  ASSERT_NE(sources, nullptr);
  const std::vector<DocumentSource> expected = {{path("f/a.jsonl"), 0, 1},   {path("f/a.jsonl"), 2, 4},
                                                {path("f/b.txt"), 0, 0},     {path("f/sub/c.txt"), 0, 1},
                                                {path("f/sub/c.txt"), 1, 3}, {path("g.csv"), 0, 2},
                                                {path("g.csv"), 1, 4}};
  ASSERT_EQ(dataset.num_documents(), std::ssize(expected));
  for (size_t d = 0; d < expected.size(); ++d)
    EXPECT_EQ(sources->of(static_cast<int64_t>(d)), expected[d]) << d;
}

// As those of other programs; and one that is left of other files is not taken for theirs.
TEST_F(DocumentSourcesTest, ATokenFileMayHaveNone) {
  write("a.txt", "text");
  build_token_file(env_, tokenizer_, {path("a.txt")}, path("x"), {});
  const std::string old = env_.read_text(path("x.sources"));
  IndexedWriter writer(env_, path("x"), 100);
  writer.add_document(std::vector<int32_t>{1, 2});
  writer.finish();
  EXPECT_EQ(IndexedDataset(path("x")).open_sources(), nullptr);
  write("x.sources", old);
  EXPECT_THAT(failure_of([&] { IndexedDataset(path("x")).open_sources(); }), HasSubstr("x.sources"));
}

}  // namespace
}  // namespace athanor::tests::document_sources_test
