#include "athanor/documents/document_reader.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "data/fakes.h"

namespace athanor::tests::document_reader_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DocumentReaderTest : public FolderTest {
 protected:
  std::vector<std::string> read(const std::string& path, const std::string& text_key = "text") {
    std::vector<std::string> documents;
    report_ =
        for_each_document(env_, path, {.text_key = text_key},
                          [&](std::string_view text, const DocumentPlace&) { documents.emplace_back(text); });
    return documents;
  }
  std::string failure(const std::string& path, const std::string& text_key = "text") {
    return failure_of([&] { read(path, text_key); });
  }
  std::vector<std::string> left_out() const {
    std::vector<std::string> lines;
    for (const LeftOut& entry : report_.left_out) lines.push_back(entry.file + ": " + entry.reason);
    return lines;
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
  EXPECT_THAT(failure(write("a.jsonl", good + "[1]\n")),
              AllOf(HasSubstr("line 2"), HasSubstr("not an object")));
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
  EXPECT_THAT(failure(path("f/picture.png")), AllOf(HasSubstr("picture.png"), HasSubstr("PNG")));
  EXPECT_THAT(failure(path("f/pipe")), HasSubstr("neither a file nor a folder"));
  std::vector<std::string> names;
  for (const auto& file : list_sources(env_, path("f")).files) names.push_back(file.relative);
  EXPECT_EQ(left_out(), (std::vector<std::string>{
                            ".cache: hidden", ".hidden: hidden", "pipe: neither a file nor a folder",
                            "sub/loop: a link to a folder above",
                            "archive.gz: a binary file (a zero byte at 3)", "picture.png: a PNG picture"}));
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
  for_each_document(env_, path("f"), {}, [&](std::string_view, const DocumentPlace& place) {
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
      for_each_document(env_, path("a.txt"), {},
                        [](std::string_view, const DocumentPlace&) { throw std::logic_error("stop"); }),
      std::logic_error);
}

TEST_F(DocumentReaderTest, ContentDecidesWhatIsJson) {
  const std::string lines = "{\"text\":\"a\",\"n\":1}\n{\"text\":\"b\"}\n";
  const std::string array = "[{\"text\":\"a\"},\n {\"text\":\"b\"}]\n";
  const std::string pretty = "{\n  \"text\": \"a\",\n  \"n\": [1, {}]\n}\n{\n  \"text\": \"b\"\n}\n";
  for (const std::string& content : {lines, array, pretty, "\xEF\xBB\xBF\n" + lines, "\n \t" + array})
    for (const char* name : {"a.json", "a.txt", "a", "a.ndjson", "a.jsonl", "a.JSONL", "a.data"}) {
      EXPECT_THAT(read(write(name, content)), ElementsAre("a", "b")) << name << ": " << content;
      EXPECT_EQ(report_.json_files, 1);
    }
  for (const char* name : {"a.json.gz", "a.txt", "a.zst.part", "b"})  // gzip under any name
    EXPECT_THAT(read(write(name, gzip(lines))), ElementsAre("a", "b")) << name;
  EXPECT_THAT(read(write("a.json", zstd(array))), ElementsAre("a", "b"));
  EXPECT_THAT(read(write("one.json", "{\"text\": \"only\"}")), ElementsAre("only"));
}

TEST_F(DocumentReaderTest, TextThatBeginsLikeJsonIsText) {
  for (const char* text : {"[1] A footnote.\n", "{ int x; }\n", "{{ template }} text", "[section]\nkey = 1\n",
                           "[link](there) and on", "{}\nmore", "[ ] to do\n[x] done\n", "{", "["}) {
    EXPECT_THAT(read(write("a.txt", text)), ElementsAre(text));
    EXPECT_EQ(report_.json_files, 0);
  }
}

TEST_F(DocumentReaderTest, JsonThatIsNotUnderstoodIsRefused) {
  for (const auto& [content, why] : std::vector<std::pair<std::string, std::string>>{
           {"{\"body\":\"a\"}\n{\"body\":\"b\"}\n", "no key 'text'"},
           {"{\n \"body\": 1\n}\n", "no key 'text', got 'body'"},
           {"[\"a\", \"b\"]", "expected an object"},
           {"[{\"text\":\"a\"}, 3]", "line 1: got '3]'"},
           {"[{\"text\":\"a\"}] more", "behind the array"},
           {"[{\"text\":\"a\"} {\"text\":\"b\"}]", "expected ',' or ']'"},
           {"[{\"text\":\"a\"},", "expected an object"},
           {"[{\"text\":\"a\"", "ends in the middle"},
           {"[\"a\"]\n[\"b\"]\n", "not an object (an array)"},
           {"{\"text\": \"cut short\n{\"text\": \"b\"}\n", "line 1: not JSON"},
           {"{\"text\":\"a\",\"score\":NaN}\n", "line 1: not JSON"},
           {"{\"text\":\"a\"} and prose\n", "line 1: not JSON"}}) {
    EXPECT_THAT(failure(write("a.txt", content)), AllOf(HasSubstr("a.txt"), HasSubstr(why))) << content;
  }
}

TEST_F(DocumentReaderTest, OtherJsonAmongTextIsLeftOutByName) {
  write("f/README", "text");
  write("f/package.json", "{\n  \"name\": \"x\",\n  \"version\": 1\n}\n");
  write("f/table.json", "[1, 2]");
  write("f/line.json", "{\"name\": \"y\"}\n");
  EXPECT_THAT(read(path("f")), ElementsAre("text"));
  ASSERT_EQ(left_out().size(), 3u);
  EXPECT_THAT(left_out()[0], HasSubstr("line.json: JSON, no key"));
  EXPECT_THAT(left_out()[1], HasSubstr("package.json: JSON, no key 'text', got 'name', 'version'"));
  EXPECT_THAT(left_out()[2], HasSubstr("table.json: JSON, got '1, 2]'"));
  EXPECT_THAT(failure(path("f/package.json")), HasSubstr("no key 'text'"));
  write("f/lines.txt", "{\"body\":\"a\"}\n{\"body\":\"b\"}\n");
  EXPECT_THAT(failure(path("f")), HasSubstr("lines.txt"));  // a corpus, not a file of settings
}

TEST_F(DocumentReaderTest, NumbersOfAnySizeAreValid) {
  for (const char* number : {"18446744073709551616", "340282366920938463463374607431768211456", "-1e999",
                             "1e-999", "-0", "0.1E+400", "-123456789012345678901234567890.5e10"})
    EXPECT_THAT(
        read(write("a.jsonl",
                   fmt::format("{{\"n\":{0},\"l\":[{0},\"1e999\"],\"text\":\"a 1e999 \\\" 2\"}}\n", number))),
        ElementsAre("a 1e999 \" 2"))
        << number;
  for (const char* number :
       {"01", "1.", ".5", "+1", "1e", "--1", "0x10", "1e999x", "NaN", "Infinity", "1e999e1"})
    EXPECT_THAT(failure(write("a.jsonl", fmt::format("{{\"n\":{},\"text\":\"a\"}}\n", number))),
                AllOf(HasSubstr("line 1"), HasSubstr("not JSON")))
        << number;
}

TEST_F(DocumentReaderTest, DepthAndSurrogatesAreNamed) {
  const auto nested = [](size_t depth) {
    return "{\"text\":\"a\",\"x\":" + std::string(depth, '[') + std::string(depth, ']') + "}\n";
  };
  EXPECT_THAT(read(write("a.jsonl", nested(20000))), ElementsAre("a"));
  EXPECT_THAT(failure(write("a.jsonl", nested(80000))),
              AllOf(HasSubstr("line 1"), HasSubstr("nested deeper")));
  for (const char* lone : {"\\ud83d vase", "\\udc00", "\\ud83d\\u0041", "\\\\ \\ud83d"})
    EXPECT_THAT(failure(write("a.jsonl", fmt::format("{{\"text\":\"ok\"}}\n{{\"text\":\"{}\"}}\n", lone))),
                AllOf(HasSubstr("line 2"), HasSubstr("lone surrogate")))
        << lone;
  EXPECT_THAT(read(write("a.jsonl",
                         "{\"by\":\"\\ud83d\",\"text\":\"a\\ufffd?\"}\n"
                         "{\"text\":\"b\",\"\\udc00\":[\"\\ud800\\u0041\"],\"n\":1e999}\n")),
              ElementsAre("a\xEF\xBF\xBD?", "b"));
  EXPECT_THAT(read(write("a.jsonl", "{\"text\":\"\\ud83d\\udd25 \\\\ud83d\"}\n")),
              ElementsAre("\xF0\x9F\x94\xA5 \\ud83d"));
}

TEST_F(DocumentReaderTest, IdsComeWithTheirDocuments) {
  std::vector<std::string> ids;
  for_each_document(env_,
                    write("a.jsonl",
                          "{\"id\":\"x\",\"text\":\"a\"}\n{\"text\":\"b\",\"id\":17}\n{\"text\":\"c\"}\n"
                          "{\"id\":18446744073709551615,\"text\":\"d\"}\n{\"id\":1e999,\"text\":\"e\"}\n"
                          "{\"id\":[1],\"text\":\"f\"}\n{\"n\":1e999,\"id\":7,\"text\":\"g\"}\n"
                          "{\"id\":-340282366920938463463374607431768211456,\"text\":\"h\"}\n"),
                    {}, [&](std::string_view, const DocumentPlace& place) { ids.push_back(place.id); });
  EXPECT_THAT(ids, ElementsAre("x", "17", "", "18446744073709551615", "", "", "7",
                               "-340282366920938463463374607431768211456"));
}

TEST_F(DocumentReaderTest, SeparatorLinesDivideDocuments) {
  EXPECT_THAT(read(write("a.txt", "one\n<|endoftext|>\ntwo\nlines\n<|endoftext|>\n")),
              ElementsAre("one\n", "two\nlines\n"));
  EXPECT_EQ(report_.separator_lines, 2);
  EXPECT_THAT(read(write("a.txt", "\xEF\xBB\xBFone\r\n <|endoftext|> \r\n\r\n<|endoftext|>\ntwo")),
              ElementsAre("one\r\n", "two"));
  EXPECT_THAT(read(write("a.txt", "one <|endoftext|> two\n")), ElementsAre("one <|endoftext|> two\n"));
  EXPECT_EQ(report_.plain_separators, 1);
  EXPECT_THAT(remarks(report_, "a.txt"), ElementsAre(HasSubstr("read as plain text")));
  std::vector<std::string> parts;
  for_each_document(env_, write("a.txt", "one\n</s>\ntwo\n"), {.separators = {"</s>"}},
                    [&](std::string_view text, const DocumentPlace& place) {
                      parts.push_back(fmt::format("{}:{}", place.line, text));
                    });
  EXPECT_THAT(parts, ElementsAre("1:one\n", "3:two\n"));
  // Parts that cross the chunks in which a file is read.
  std::string many;
  for (int i = 0; i < 300; ++i) many += std::string(20000 + i, 'x') + "\n<|endoftext|>\n";
  EXPECT_EQ(read(write("a.txt", many)).size(), 300u);
  EXPECT_THAT(failure(write("a.txt", "a\n<|endoftext|>\nb\n\xE9\n")),
              AllOf(HasSubstr("line 4"), HasSubstr("byte 18")));
}

TEST_F(DocumentReaderTest, AByteOrderMarkIsNoText) {
  EXPECT_THAT(read(write("a.txt", "\xEF\xBB\xBFtext")), ElementsAre("text"));
  EXPECT_THAT(read(write("a.txt", "\xEF\xBB\xBF")), ElementsAre());
  EXPECT_THAT(read(write("a.txt.gz", gzip("\xEF\xBB\xBFtext"))), ElementsAre("text"));
  write("f/a.txt",
        "\xEF\xBB\xBF"
        "a");
  write("f/b.jsonl", "\xEF\xBB\xBF{\"text\":\"b\"}");
  write("f/c.json", "\xEF\xBB\xBF[{\"text\":\"c\"}]");
  EXPECT_THAT(read(path("f")), ElementsAre("a", "b", "c"));
}

TEST_F(DocumentReaderTest, LinksToNothingAreNamed) {
  write("f/a.txt", "a");
  std::filesystem::create_symlink("nowhere.jsonl", path("f/b.jsonl"));
  std::filesystem::create_symlink("c.txt", path("f/c.txt"));
  std::filesystem::create_symlink("a.txt", path("f/d.txt"));
  EXPECT_THAT(read(path("f")), ElementsAre("a", "a"));
  EXPECT_THAT(left_out(), ElementsAre("b.jsonl: a link to nothing", "c.txt: a link that leads to itself"));
  EXPECT_THAT(remarks(report_, "f"), ElementsAre(AllOf(HasSubstr("2 files read (a.txt, d.txt), 2 left out"),
                                                       HasSubstr("b.jsonl (a link to nothing)"))));
}

TEST_F(DocumentReaderTest, AZeroByteBehindTheProbeIsNamed) {
  std::string text(70000, 'x');
  text += "\nabc";
  text.push_back('\0');
  EXPECT_THAT(failure(write("a.txt", text)),
              AllOf(HasSubstr("zero byte at byte 70004"), HasSubstr("line 2")));
}

}  // namespace
}  // namespace athanor::tests::document_reader_test
