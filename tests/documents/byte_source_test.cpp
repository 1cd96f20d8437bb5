#include "athanor/documents/byte_source.h"

#include <bzlib.h>
#include <gmock/gmock.h>
#include <lzma.h>

#include "data/fakes.h"
#include "support/memory_source.h"

namespace athanor::tests::byte_source_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string xz(std::string_view text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  size_t used = 0;
  EXPECT_EQ(
      lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const uint8_t*>(text.data()),
                              text.size(), reinterpret_cast<uint8_t*>(out.data()), &used, out.size()),
      LZMA_OK);
  out.resize(used);
  return out;
}

std::string bzip2(std::string text) {
  auto size = static_cast<unsigned>(text.size() + text.size() / 50 + 700);
  std::string out(size, '\0');
  EXPECT_EQ(
      BZ2_bzBuffToBuffCompress(out.data(), &size, text.data(), static_cast<unsigned>(text.size()), 9, 0, 0),
      BZ_OK);
  out.resize(size);
  return out;
}

// A frame header alone, of a window that the format allows: 2^(10 + exponent) bytes.
std::string zstd_header(int exponent) {
  return std::string("\x28\xb5\x2f\xfd\0", 5) + static_cast<char>(exponent << 3);
}

class ByteSourceTest : public FolderTest {
 protected:
  std::string all(const std::string& name, std::string_view bytes) {
    const auto source = open_bytes(env_, write(name, bytes));
    std::string text, chunk(777, '\0');
    while (const size_t got = source->read(chunk.data(), chunk.size())) text.append(chunk, 0, got);
    return text;
  }
  std::string failure(const std::string& name, std::string_view bytes) {
    return failure_of([&] { all(name, bytes); });
  }
};

TEST_F(ByteSourceTest, EveryCompressionIsReadUnderAnyName) {
  std::string text;
  for (int i = 0; i < 30000; ++i) text += std::to_string(i * 7919 % 1000) + "\n";
  for (const std::string& bytes : {gzip(text), zstd(text), xz(text), bzip2(text)})
    for (const char* name : {"a.txt", "a", "a.gz", "a.xz"}) EXPECT_EQ(all(name, bytes), text) << name;
}

TEST_F(ByteSourceTest, StreamsFollowOneAnother) {
  for (const auto& pack : std::vector<std::function<std::string(std::string)>>{
           [](const std::string& t) { return gzip(t); }, [](const std::string& t) { return zstd(t); },
           [](const std::string& t) { return xz(t); }, bzip2}) {
    EXPECT_EQ(all("a", pack("one ") + pack("") + pack("two")), "one two");
    EXPECT_EQ(all("a", pack("")), "");
    const std::string good = pack("some text that is long enough to be cut in two");
    for (const size_t size : {good.size() / 2, good.size() - 1})
      EXPECT_THAT(failure("a", good.substr(0, size)), AllOf(HasSubstr("/a'"), Not(HasSubstr("follows"))))
          << size;
    EXPECT_THAT(failure("a", good + "some junk behind it"), HasSubstr("what follows"));
  }
}

TEST_F(ByteSourceTest, PaddingOfGzipMembersIsNoData) {
  const std::string zeros(1000, '\0');
  EXPECT_EQ(all("a.gz", gzip("one ") + zeros), "one ");
  EXPECT_EQ(all("a.gz", gzip("one ") + gzip("") + zeros + gzip("two") + zeros), "one two");
  EXPECT_EQ(all("a.gz", gzip("one ") + std::string(size_t{1} << 19, '\0')), "one ");
  EXPECT_THAT(failure("a.gz", gzip("one ") + zeros + "x"),
              HasSubstr("neither another gzip member nor padding"));
}

TEST_F(ByteSourceTest, SkippableFramesAreSkipped) {
  const std::string skip("\x52\x2a\x4d\x18\x03\0\0\0abc", 11);
  EXPECT_EQ(all("a.zst", skip + zstd("one ") + skip + zstd("two") + skip), "one two");
  EXPECT_EQ(all("a.zst", skip), "");
}

TEST_F(ByteSourceTest, WindowsAreBounded) {
  // 4 GiB is beyond the limit, 2 GiB is not: that frame only ends too soon.
  EXPECT_THAT(failure("a.zst", zstd_header(22)),
              AllOf(HasSubstr("window above 2.0 GiB"), Not(HasSubstr("corrupt"))));
  EXPECT_THAT(failure("a.zst", zstd_header(21)),
              AllOf(HasSubstr("ends in the middle"), Not(HasSubstr("window"))));
  const auto small =
      decompress(std::make_unique<MemorySource>("\x28\xb5\x2f\xfd"), SourceCompression::zstd, "b", 1 << 20);
  char byte = 0;
  EXPECT_THAT(failure_of([&] { small->read(&byte, 1); }), HasSubstr("ends in the middle"));
}

TEST_F(ByteSourceTest, APromiseThatIsNotKeptIsNamed) {
  for (const char* name : {"a.gz", "a.zst", "a.xz", "a.bz2"})
    for (const char* bytes : {"", "\x1f", "plain text"})
      EXPECT_THAT(failure(name, bytes), AllOf(HasSubstr(name), HasSubstr("promises")));
}

TEST_F(ByteSourceTest, TheHeadIsReadAgain) {
  const auto source = open_bytes(env_, write("a", "0123456789"));
  EXPECT_EQ(source->head(4), "0123");
  EXPECT_EQ(source->head(100), "0123456789");
  std::string chunk(6, '\0');
  EXPECT_EQ(source->read(chunk.data(), 6), 6u);
  EXPECT_EQ(chunk, "012345");
  EXPECT_EQ(source->head(100), "6789");
  EXPECT_EQ(source->read(chunk.data(), 6), 4u);
  EXPECT_EQ(source->read(chunk.data(), 6), 0u);
}

}  // namespace
}  // namespace athanor::tests::byte_source_test
