#include "athanor/data/indexed_dataset.h"

#include <gmock/gmock.h>

#include <numeric>

#include "data/fakes.h"
#include "support/fault_env.h"

namespace athanor::tests::indexed_dataset_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Documents = std::vector<std::vector<int32_t>>;

class IndexedDatasetTest : public FolderTest {
 protected:
  std::string write_tokens(const std::string& name, int64_t vocab_size, const Documents& documents) {
    IndexedWriter writer(env_, path(name), vocab_size);
    for (const auto& document : documents) writer.add_document(document);
    writer.finish();
    return path(name);
  }
  static std::vector<int32_t> all(const IndexedDataset& dataset) {
    std::vector<int32_t> ids(static_cast<size_t>(dataset.num_tokens()));
    dataset.read(0, ids);
    return ids;
  }
};

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// An index as Megatron-LM lays it out, written by hand: two documents, the first of two sequences.
std::string index_of(uint8_t code, int64_t item_bytes) {
  std::string idx("MMIDIDX\0\0", 9);
  put<uint64_t>(idx, 1);
  put<uint8_t>(idx, code);
  put<uint64_t>(idx, 3);
  put<uint64_t>(idx, 3);
  for (const int32_t length : {2, 0, 3}) put<int32_t>(idx, length);
  for (const int64_t pointer : {0, 2, 2}) put<int64_t>(idx, pointer * item_bytes);
  for (const int64_t boundary : {0, 2, 3}) put<int64_t>(idx, boundary);
  return idx;
}

template <typename T>
std::string ids_of(const std::vector<int32_t>& ids) {
  std::string bin;
  for (const int32_t id : ids) put<T>(bin, static_cast<T>(id));
  return bin;
}

TEST_F(IndexedDatasetTest, WritesMegatronsBytes) {
  write_tokens("a", 65499, {{1, 2}, {}, {65498}});
  std::string idx("MMIDIDX\0\0", 9);
  put<uint64_t>(idx, 1);
  put<uint8_t>(idx, 8);
  put<uint64_t>(idx, 3);
  put<uint64_t>(idx, 4);
  for (const int32_t length : {2, 0, 1}) put<int32_t>(idx, length);
  for (const int64_t pointer : {0, 4, 4}) put<int64_t>(idx, pointer);
  for (const int64_t boundary : {0, 1, 2, 3}) put<int64_t>(idx, boundary);
  EXPECT_EQ(env_.read_text(path("a.idx")), idx);
  EXPECT_EQ(env_.read_text(path("a.bin")), ids_of<uint16_t>({1, 2, 65498}));
  EXPECT_EQ(env_.list(folder_), (std::vector<std::string>{"a.bin", "a.idx"}));
}

TEST_F(IndexedDatasetTest, ReadsBackAnyRange) {
  for (const int64_t vocab_size : {int64_t{65499}, int64_t{65500}, int64_t{2000000000}}) {
    Documents documents(50);
    std::vector<int32_t> stream;
    for (size_t d = 0; d < documents.size(); ++d) {
      documents[d].resize(d * 7 % 13);
      for (auto& id : documents[d]) {
        id = static_cast<int32_t>((stream.size() * 2654435761u) % static_cast<uint64_t>(vocab_size));
        stream.push_back(id);
      }
    }
    const IndexedDataset dataset(write_tokens("a", vocab_size, documents));
    EXPECT_EQ(dataset.type(), vocab_size < 65500 ? TokenType::u16 : TokenType::i32);
    EXPECT_EQ(dataset.num_documents(), 50);
    EXPECT_EQ(all(dataset), stream);
    std::vector<int32_t> part(20);
    dataset.read(31, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), stream.begin() + 31));
    EXPECT_EQ(dataset.document_start(0), 0);
    EXPECT_EQ(dataset.document_start(2), 7);
    EXPECT_EQ(dataset.document_start(50), dataset.num_tokens());
    EXPECT_THROW(dataset.read(dataset.num_tokens() - 19, part), Error);
    EXPECT_THROW(dataset.read(-1, part), Error);
    EXPECT_NO_THROW(dataset.check_ids(vocab_size));
  }
}

TEST_F(IndexedDatasetTest, ReadsEveryIntegerTypeOfMegatron) {
  const std::vector<int32_t> ids = {1, 2, 3, 100, 5};
  const std::vector<std::pair<int, std::string>> files = {
      {1, ids_of<uint8_t>(ids)}, {2, ids_of<int8_t>(ids)},  {3, ids_of<int16_t>(ids)},
      {4, ids_of<int32_t>(ids)}, {5, ids_of<int64_t>(ids)}, {8, ids_of<uint16_t>(ids)}};
  for (const auto& [code, bin] : files) {
    write("m.bin", bin);
    write("m.idx", index_of(static_cast<uint8_t>(code), static_cast<int64_t>(bin.size() / 5)));
    for (const char* name : {"m", "m.bin", "m.idx"}) {
      const IndexedDataset dataset(path(name));
      EXPECT_EQ(all(dataset), ids) << code;
      EXPECT_EQ(dataset.num_sequences(), 3);
      EXPECT_EQ(dataset.num_documents(), 2);
      EXPECT_EQ(dataset.document_start(1), 2);
    }
  }
  for (const uint8_t code : {0, 6, 7, 9, 255}) {
    write("m.idx", index_of(code, 2));
    EXPECT_THAT(failure_of([&] { IndexedDataset dataset(path("m")); }), HasSubstr("m.idx")) << int{code};
  }
}

TEST_F(IndexedDatasetTest, ModesMustBeText) {
  write("m.bin", ids_of<uint16_t>({1, 2, 3, 4, 5}));
  write("m.idx", index_of(8, 2) + std::string(3, '\0'));
  EXPECT_EQ(IndexedDataset(path("m")).num_tokens(), 5);
  write("m.idx", index_of(8, 2) + std::string("\0\1\0", 3));
  EXPECT_THAT(failure_of([&] { IndexedDataset dataset(path("m")); }), HasSubstr("sequence 1 has mode 1"));
}

TEST_F(IndexedDatasetTest, EmptyAndMissingFiles) {
  const IndexedDataset empty(write_tokens("e", 100, {}));
  EXPECT_EQ(empty.num_tokens(), 0);
  EXPECT_EQ(empty.num_documents(), 0);
  EXPECT_NO_THROW(empty.read(0, {}));
  EXPECT_FALSE(empty.quick_hash().empty());
  EXPECT_THAT(failure_of([&] { IndexedDataset dataset(path("none")); }), HasSubstr("none.idx"));
  std::filesystem::remove(path("e.bin"));
  EXPECT_THAT(failure_of([&] { IndexedDataset dataset(path("e")); }), HasSubstr("e.bin"));
}

TEST_F(IndexedDatasetTest, EveryTruncationIsNamed) {
  write_tokens("a", 100, {{1, 2, 3}, {4}});
  const std::string idx = env_.read_text(path("a.idx")), bin = env_.read_text(path("a.bin"));
  for (size_t size = 0; size < idx.size(); ++size) {
    write("a.idx", idx.substr(0, size));
    EXPECT_THAT(failure_of([&] { IndexedDataset dataset(path("a")); }), HasSubstr("a.idx")) << size;
  }
  write("a.idx", idx + std::string(1, '\0'));
  EXPECT_THAT(failure_of([&] { IndexedDataset dataset(path("a")); }), HasSubstr("a.idx"));
  write("a.idx", idx);
  for (const std::string& wrong : {bin.substr(1), bin.substr(2), bin + "x", std::string()}) {
    write("a.bin", wrong);
    EXPECT_THAT(failure_of([&] { IndexedDataset dataset(path("a")); }), HasSubstr("a.bin"));
  }
}

// A flip in the index is either seen, or cannot change the stream: document boundaries may move within their
// order without touching a token.
TEST_F(IndexedDatasetTest, EveryBitFlipOfTheIndexIsNamedOrHarmless) {
  write_tokens("a", 100, {{1, 2, 3}, {4}, {5, 6}});
  const std::string idx = env_.read_text(path("a.idx"));
  const std::vector<int32_t> ids = {1, 2, 3, 4, 5, 6};
  const size_t boundaries_at = 34 + 3 * 12;
  for (size_t bit = 0; bit < idx.size() * 8; ++bit) {
    std::string flipped = idx;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    write("a.idx", flipped);
    const std::string message = failure_of([&] {
      const IndexedDataset dataset(path("a"));
      EXPECT_EQ(all(dataset), ids);
      EXPECT_GE(bit / 8, boundaries_at) << "accepted a flip of bit " << bit;
      EXPECT_EQ(dataset.document_start(0), 0) << bit;
      EXPECT_EQ(dataset.document_start(dataset.num_documents()), 6) << bit;
    });
    if (!message.empty()) {
      EXPECT_THAT(message, HasSubstr("a.")) << bit;
    }
  }
}

TEST_F(IndexedDatasetTest, HugeCountsAreRefusedBeforeUse) {
  write_tokens("a", 100, {{1, 2, 3}});
  const std::string idx = env_.read_text(path("a.idx"));
  for (const size_t at : {size_t{18}, size_t{26}})
    for (const uint64_t count :
         {~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 61, uint64_t{1} << 32, uint64_t{0}}) {
      std::string wrong = idx;
      std::memcpy(wrong.data() + at, &count, sizeof count);
      write("a.idx", wrong);
      EXPECT_THAT(failure_of([&] { IndexedDataset dataset(path("a")); }), HasSubstr("a.idx"));
    }
}

TEST_F(IndexedDatasetTest, IdsOutsideTheVocabularyAreNamed) {
  IndexedWriter writer(env_, path("a"), 100);
  writer.add_document(std::vector<int32_t>{1});
  EXPECT_THAT(failure_of([&] {
                writer.add_document(std::vector<int32_t>{99, 100});
              }),
              HasSubstr("token id 100"));
  EXPECT_THROW(writer.add_document(std::vector<int32_t>{-1}), Error);
  const IndexedDataset dataset(write_tokens("b", 1000, {{1, 2}, {999}}));
  EXPECT_NO_THROW(dataset.check_ids(1000));
  EXPECT_THAT(failure_of([&] { dataset.check_ids(999); }), HasSubstr("token 2 is id 999"));
  write("c.idx", index_of(5, 8));
  std::string bin;
  for (const int64_t id : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{1} << 40, int64_t{5}}) put(bin, id);
  write("c.bin", bin);
  const IndexedDataset wide(path("c"));
  EXPECT_THAT(failure_of([&] { wide.check_ids(1 << 30); }), HasSubstr("token 3 is id 1099511627776"));
}

TEST_F(IndexedDatasetTest, UnfinishedAndFailedWritersLeaveNothing) {
  { IndexedWriter(env_, path("a"), 100).add_document(std::vector<int32_t>{1}); }
  EXPECT_TRUE(env_.list(folder_).empty());
  for (const int64_t capacity : {0, 10, 60, 110}) {
    FullDiskEnv full(capacity);
    EXPECT_THROW(
        {
          IndexedWriter writer(full, path("a"), 100);
          writer.add_document(std::vector<int32_t>(20, 7));
          writer.add_document(std::vector<int32_t>(5, 7));
          writer.finish();
        },
        IoError)
        << capacity;
    EXPECT_TRUE(env_.list(folder_).empty()) << capacity;
  }
}

// The two pairs have files of the same sizes: an index of one with the ids of the other would not be noticed.
TEST_F(IndexedDatasetTest, AKillWhileReplacingAPairLeavesNoMixture) {
  const std::vector<int32_t> old_ids(10, 1), new_ids(10, 2);
  const auto write_pair = [&](Env& env, const std::vector<int32_t>& ids, size_t first) {
    IndexedWriter writer(env, path("a"), 100);
    writer.add_document(std::span(ids).first(first));
    writer.add_document(std::span(ids).subspan(first));
    writer.finish();
  };
  int64_t fail_at = 0, old_seen = 0, new_seen = 0, refused = 0;
  for (bool failed = true; failed; ++fail_at) {
    write_pair(env_, old_ids, 5);
    FaultEnv env(fail_at, FaultEnv::Fault::kill);
    try {
      write_pair(env, new_ids, 3);
    } catch (const IoError&) {
    }
    failed = env.failed();
    try {
      const IndexedDataset found(path("a"));
      std::vector<int32_t> ids(10);
      found.read(0, ids);
      const bool is_new = ids == new_ids;
      EXPECT_EQ(found.document_start(1), is_new ? 3 : 5) << "call " << fail_at;
      EXPECT_TRUE(is_new || ids == old_ids);
      ++(is_new ? new_seen : old_seen);
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a.idx")) << "call " << fail_at;
      ++refused;
    }
  }
  EXPECT_GE(old_seen, 5);
  EXPECT_GE(new_seen, 1);
  EXPECT_GE(refused, 2);
}

TEST_F(IndexedDatasetTest, HashesSeeAChange) {
  const IndexedDataset a(write_tokens("a", 100, {{1, 2, 3}})), b(write_tokens("b", 100, {{1, 2, 4}})),
      c(write_tokens("c", 100, {{1, 2}, {3}})), again(write_tokens("d", 100, {{1, 2, 3}}));
  EXPECT_EQ(a.quick_hash(), again.quick_hash());
  EXPECT_NE(a.quick_hash(), b.quick_hash());
  EXPECT_NE(a.quick_hash(), c.quick_hash());
  EXPECT_EQ(a.full_hash(), again.full_hash());
  EXPECT_NE(a.full_hash(), b.full_hash());
}

}  // namespace
}  // namespace athanor::tests::indexed_dataset_test
