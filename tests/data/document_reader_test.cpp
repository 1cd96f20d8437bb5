#include "athanor/data/document_reader.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "data/fakes.h"

namespace athanor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DocumentReaderTest : public FolderTest {
 protected:
  std::vector<std::string> read(const std::string& path, const std::string& text_key = "text") {
    std::vector<std::string> documents;
    report_ = for_each_document(env_, path, text_key, [&](std::string_view text, const DocumentPlace&) {
      documents.emplace_back(text);
    });
    return documents;
  }
  std::string failure(const std::string& path, const std::string& text_key = "text") {
    return failure_of([&] { read(path, text_key); });
  }
  ReadReport report_;
};

TEST_F(DocumentReaderTest, AFileIsADocumentWhateverItsSuffix) {
  for (const char* name : {"a.txt", "ls.1", "Makefile", "x.c", "c.json"})
    EXPECT_THAT(read(write(name, "one\ntwo\n")), ElementsAre("one\ntwo\n"));
  EXPECT_THAT(read(write("empty.txt", "")), ElementsAre());
  EXPECT_THAT(read(write("zh.txt", "\xE6\xB0\xB4\xF0\x9F\x94\xA5")),
              ElementsAre("\xE6\xB0\xB4\xF0\x9F\x94\xA5"));
}

TEST_F(DocumentReaderTest, JsonLines) {
  EXPECT_THAT(
      read(write("a.jsonl",
                 "\xEF\xBB\xBF{\"text\": \"a\\nb\", \"n\": 1}\r\n\n  \r\n{\"id\":2,\"text\":\"\\u6c34\"}\n"
                 "{\"text\":\"\"}\n{\"text\":\"last\"}")),
      ElementsAre("a\nb", "\xE6\xB0\xB4", "last"));
  EXPECT_EQ(report_.documents, 3);
  EXPECT_EQ(report_.text_bytes, 3 + 3 + 4);
  EXPECT_THAT(read(write("b.jsonl", "{\"body\":\"x\",\"text\":\"y\"}\n"), "body"), ElementsAre("x"));
  EXPECT_THAT(read(write("e.jsonl", "")), ElementsAre());
}

TEST_F(DocumentReaderTest, LinesLongerThanAChunkAndManyLines) {
  std::string text, line(3 << 20, 'x');
  text = "{\"text\":\"" + line + "\"}\n";
  for (int i = 0; i < 20000; ++i)
    text += fmt::format("{{\"text\":\"document number {} {}\"}}\n", i, std::string(i % 200, 'y'));
  text += "{\"text\":\"" + line + "\"}\n";
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, std::string>>{
           {"a.jsonl", text}, {"b.jsonl.gz", gzip(text)}, {"c.JSONL.ZST", zstd(text)}}) {
    const auto documents = read(write(name, bytes));
    ASSERT_EQ(documents.size(), 20002u) << name;
    EXPECT_EQ(documents.front(), line);
    EXPECT_EQ(documents[8], "document number 7 yyyyyyy");
    EXPECT_EQ(documents.back(), line);
  }
}

TEST_F(DocumentReaderTest, BadLinesNameFileAndLine) {
  const std::string good = "{\"text\":\"a\"}\n";
  EXPECT_THAT(failure(write("a.jsonl", good + "{\"text\":")),
              AllOf(HasSubstr("a.jsonl"), HasSubstr("line 2")));
  EXPECT_THAT(failure(write("a.jsonl", good + "[1]\n")), AllOf(HasSubstr("line 2"), HasSubstr("object")));
  EXPECT_THAT(failure(write("a.jsonl", good + good + "{\"body\":\"b\",\"id\":3}\n")),
              AllOf(HasSubstr("line 3"), HasSubstr("no key 'text'"), HasSubstr("'body', 'id'")));
  EXPECT_THAT(failure(write("a.jsonl", "{\"text\":3}\n")), HasSubstr("not a string"));
  EXPECT_THAT(failure(write("a.jsonl", "{\"text\":\"a\",\"text\":\"b\"}\n")), HasSubstr("2 times"));
  EXPECT_THAT(failure(write("a.jsonl", "{\"text\":\"a\"} x\n")), HasSubstr("line 1"));
  EXPECT_THAT(failure(write("a.jsonl", "{\"text\":\"\xE9\"}\n")),
              AllOf(HasSubstr("line 1"), HasSubstr("UTF")));
  EXPECT_THAT(failure(write("a.jsonl", "{}\n")), HasSubstr("none"));
}

TEST_F(DocumentReaderTest, TextThatIsNotUtf8NamesTheByte) {
  const std::string message = failure(write("latin1.txt",
                                            "abc\nd\xE9"
                                            "f\n"));
  EXPECT_THAT(message,
              AllOf(HasSubstr("latin1.txt"), HasSubstr("byte 5"), HasSubstr("line 2"), HasSubstr("0xe9")));
  // overlong, surrogate, above 10FFFF, lone continuation, cut short
  for (const char* bad :
       {"\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF8\x80", "\x80", "\xE6\xB0"})
    EXPECT_THAT(failure(write("bad.txt", std::string("ok ") + bad)), HasSubstr("at byte 3")) << bad;
}

TEST_F(DocumentReaderTest, AFolderIsReadInSortedOrder) {
  write("f/b.txt", "b");
  write("f/a.jsonl", "{\"text\":\"a1\"}\n{\"text\":\"a2\"}\n");
  write("f/sub/ls.1.gz", gzip("man page"));
  write("f/z.md.zst", zstd("markdown"));
  write("f/.hidden", "no");
  write("f/.cache/x.txt", "no");
  write("f/picture.png", std::string("\x89PNG\0\0", 6));
  write("f/archive.gz", gzip(std::string("tar\0", 4)));
  std::filesystem::create_directory_symlink(path("f"), path("f/sub/loop"));
  ASSERT_EQ(::mkfifo(path("f/pipe").c_str(), 0600), 0);
  EXPECT_THAT(read(path("f")), ElementsAre("a1", "a2", "b", "man page", "markdown"));
  EXPECT_EQ(report_.files, 4);
  EXPECT_EQ(report_.binary_files, 2);
  EXPECT_THAT(failure(path("f/picture.png")), AllOf(HasSubstr("picture.png"), HasSubstr("binary")));
  EXPECT_THAT(failure(path("f/pipe")), HasSubstr("neither a file nor a folder"));
  std::vector<std::string> names;
  for (const auto& file : list_source_files(env_, path("f"))) names.push_back(file.relative);
  EXPECT_THAT(names, ElementsAre("a.jsonl", "archive.gz", "b.txt", "picture.png", "sub/ls.1.gz", "z.md.zst"));
}

TEST_F(DocumentReaderTest, MissingPathIsNamed) {
  EXPECT_THAT(failure(path("nope")), HasSubstr("nope"));
}

TEST_F(DocumentReaderTest, CompressedStreamsMayFollowEachOther) {
  EXPECT_THAT(read(write("a.txt.gz", gzip("one ") + gzip("two"))), ElementsAre("one two"));
  EXPECT_THAT(read(write("a.txt.zst", zstd("one ") + zstd("two"))), ElementsAre("one two"));
  EXPECT_THAT(read(write("e.txt.gz", gzip(""))), ElementsAre());
  EXPECT_THAT(read(write("e.txt.zst", zstd(""))), ElementsAre());
  const std::string zeros(5 << 20, 'a');
  EXPECT_THAT(read(write("z.gz", gzip(zeros))), ElementsAre(zeros));
  EXPECT_THAT(read(write("z.zst", zstd(zeros))), ElementsAre(zeros));
}

TEST_F(DocumentReaderTest, CorruptCompressionIsNamed) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += std::to_string(i * 7919 % 1000) + " ";
  for (const auto& [name, good] :
       std::vector<std::pair<std::string, std::string>>{{"a.gz", gzip(text)}, {"a.zst", zstd(text)}}) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{5}, good.size() / 2, good.size() - 1}) {
      EXPECT_THAT(failure(write(name, good.substr(0, size))), HasSubstr(name)) << size;
    }
    EXPECT_THAT(failure(write(name, good + "junk")), HasSubstr(name));
    EXPECT_THAT(failure(write(name, text)), HasSubstr(name));
  }
  std::string flipped = gzip(text);
  flipped[flipped.size() / 2] ^= 0x10;
  EXPECT_THAT(failure(write("a.gz", flipped)), HasSubstr("a.gz"));
}

TEST_F(DocumentReaderTest, PlacesCountLinesAndBytes) {
  write("f/a.jsonl", "\n{\"text\":\"a\"}\n{\"text\":\"b\"}\n");
  write("f/b.txt", "hello");
  std::vector<std::string> places;
  uint64_t done = 0;
  for_each_document(env_, path("f"), "text", [&](std::string_view, const DocumentPlace& place) {
    places.push_back(fmt::format("{}:{}", std::filesystem::path(place.file).filename().string(), place.line));
    EXPECT_GE(place.bytes_done, done);
    done = place.bytes_done;
  });
  EXPECT_THAT(places, ElementsAre("a.jsonl:2", "a.jsonl:3", "b.txt:0"));
  EXPECT_EQ(done, 1u + 13 + 13 + 5);
}

TEST_F(DocumentReaderTest, TheCallbacksExceptionPassesThrough) {
  write("a.txt", "x");
  EXPECT_THROW(
      for_each_document(env_, path("a.txt"), "text",
                        [](std::string_view, const DocumentPlace&) { throw std::logic_error("stop"); }),
      std::logic_error);
}

}  // namespace
}  // namespace athanor
