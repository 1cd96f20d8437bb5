// Broken records and files: told and skipped where somebody listens, an Error where nobody does.
#include <gmock/gmock.h>

#include "athanor/documents/json_documents.h"
#include "athanor/documents/text_documents.h"
#include "documents/reading.h"

namespace athanor::tests::refused_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RefusedTest : public ReadingTest {};

std::string line_of(const std::string& text) {
  return "{\"text\":\"" + text + "\"}\n";
}

TEST_F(RefusedTest, EveryKindOfBrokenLineIsSkippedAndNamed) {
  const std::vector<std::pair<std::string, std::string>> broken = {
      {"{\"text\":\"cut", "broken JSON"},
      {"{\"text\":\"a\",\"n\":NaN}", "broken JSON"},
      {"{\"text\":\"a\",\"n\":01}", "broken JSON"},
      {"prose", "broken JSON"},
      {"[1]", "not an object"},
      {"3", "not an object"},
      {"{\"body\":\"a\"}", "no text key"},
      {"{\"text\":null}", "text is not a string"},
      {"{\"text\":[\"a\"]}", "text is not a string"},
      {"{\"text\":\"a\",\"text\":\"b\"}", "text key twice"},
      {"{\"text\":\"\xE9\"}", "invalid UTF-8"},
      {"{\"text\":\"a\",\"by\":\"\xED\xA0\x80\"}", "invalid UTF-8"},
      {std::string("{\"text\":\"a\0b\"}", 14), "NUL byte"},
      {"{\"text\":\"a\\u0000b\"}", "NUL byte"},
      {"{\"text\":\"a \\ud83d vase\"}", "lone surrogate"},
      {"{\"text\":\"" + std::string(2000, 'x') + "\"}", "too long"},
      {"{\"text\":\"a\",\"x\":" + std::string(66000, '[') + std::string(66000, ']') + "}",
       "nested too deep"}};
  for (const auto& [bad, kind] : broken) {
    options_.max_document_bytes = kind == "too long" ? 1000 : kMaxDocumentBytes;
    EXPECT_THAT(read(write("a.jsonl", line_of("one") + bad + "\n" + line_of("two"))),
                ElementsAre("one", "two"))
        << kind;
    EXPECT_THAT(refused_, ElementsAre("2:" + kind));
    EXPECT_THAT(records_, ElementsAre(0, 2));
    EXPECT_EQ(report_.refused, 1);
    EXPECT_EQ(report_.documents, 2);
    EXPECT_FALSE(details_[0].empty());
    // As the last line, and as the first of a file whose name says what it is.
    EXPECT_THAT(read(write("a.jsonl", line_of("one") + bad)), ElementsAre("one"));
    EXPECT_THAT(refused_, ElementsAre("2:" + kind));
    EXPECT_THAT(read(write("a.jsonl", bad + "\n" + line_of("one"))), ElementsAre("one")) << kind;
    EXPECT_THAT(refused_, ElementsAre("1:" + kind));
    if (bad.find("u0000") != std::string::npos) continue;  // as it always was, if nobody listens
    EXPECT_THAT(failure(write("a.jsonl", line_of("one") + bad)), HasSubstr("a.jsonl")) << kind;
  }
}

TEST_F(RefusedTest, TheDirtyLinesOfACorpusAreCounted) {
  const std::string dirty =
      "{\"text\":\"A vase.\"}\n{\"text\":\"A broken \\ud83d vase.\"}\n{\"text\":\"A kiln.\",\"score\":NaN}\n"
      "{\"text\":null}\n\n{\"text\":\"\"}\n{\"text\":\"A bell.\"}\n";
  EXPECT_THAT(read(write("dirty.jsonl", dirty)), ElementsAre("A vase.", "A bell."));
  EXPECT_THAT(refused_, ElementsAre("2:lone surrogate", "3:broken JSON", "4:text is not a string"));
  EXPECT_THAT(records_, ElementsAre(0, 5));
  EXPECT_EQ(report_.empty, 1);
  EXPECT_THAT(failure(path("dirty.jsonl")), AllOf(HasSubstr("line 2"), HasSubstr("lone surrogate")));
}

TEST_F(RefusedTest, ALimitIsTheLargestRecordAllowed) {
  for (const auto& [name, content] : std::vector<std::pair<std::string, std::string>>{
           {"a.jsonl", "{\"text\":\"0123456789\"}\n"},  // 21 bytes
           {"a.json", "[{\"text\":\"0123456789\"}]"},
           {"a.txt", "012345678901234567890\n<|endoftext|>\n"},  // 22 with its line end
           {"a.csv", "text\n01234567890123456789\n"}}) {
    const size_t size_bytes = name == "a.txt" ? 22 : 21;
    options_.max_document_bytes = size_bytes;
    EXPECT_EQ(read(write(name, content)).size(), 1u) << name;
    EXPECT_THAT(refused_, IsEmpty());
    options_.max_document_bytes = size_bytes - 1;
    EXPECT_THAT(read(path(name)), IsEmpty()) << name;
    ASSERT_EQ(refused_.size(), 1u);
    EXPECT_THAT(refused_[0], HasSubstr("too long"));
    EXPECT_THAT(failure(path(name)), AllOf(HasSubstr(name), HasSubstr("more than"))) << name;
  }
}

TEST_F(RefusedTest, FaultsBetweenTheObjectsOfAnArray) {
  const std::string a = "{\"text\":\"a\"}", b = "{\"text\":\n\"b\"}", bad = "{\"text\":\n3}";
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"[" + a + "," + bad + "," + b + "]", {"1:text is not a string"}},
      {"[" + a + ", 3,\n" + b + "]", {"1:not an object"}},
      {"[" + a + " " + b + "]", {"1:broken JSON"}},
      {"[" + a + "," + b + "] more", {"2:broken JSON"}},
      {"[" + a + "," + b + ",]", {"2:broken JSON"}},
      {"[" + a + "," + b, {"2:broken JSON"}},
      {"[" + a + "," + b + ",{\"text\":\"c", {"2:broken JSON"}},
      {"[" + a + "," + b + ",{\"text\" \"c\"}]", {"2:broken JSON"}}};
  for (const auto& [content, faults] : cases) {
    EXPECT_THAT(read(write("a.json", content)), ElementsAre("a", "b")) << content;
    EXPECT_EQ(refused_, faults) << content;
  }
  EXPECT_THAT(read(write("a.json", "{\n\"text\":\"a\"}\n{\n\"text\":1}\nword\n{\n\"text\":\"b\"}\n")),
              ElementsAre("a", "b"));
  EXPECT_THAT(refused_, ElementsAre("3:text is not a string", "5:not an object"));
  options_.max_document_bytes = 100;
  EXPECT_THAT(read(write("a.json", "[" + a + ",{\"text\":\"" + std::string(3 << 20, 'x') + "\"}," + b + "]")),
              ElementsAre("a", "b"));
  EXPECT_THAT(refused_, ElementsAre("1:too long"));
}

TEST_F(RefusedTest, PartsOfPlainText) {
  const std::string separator = "\n<|endoftext|>\n";
  EXPECT_THAT(read(write("a.txt", "one" + separator + "b\xE9" + separator + "\n\n" + separator + "two")),
              ElementsAre("one\n", "two"));
  EXPECT_THAT(refused_, ElementsAre("3:invalid UTF-8"));
  EXPECT_THAT(records_, ElementsAre(0, 2));
  EXPECT_EQ(report_.empty, 1);
  EXPECT_THAT(details_[0], HasSubstr("at byte 19 (line 3)"));
  for (const char* tail : {"", "x"}) {  // of any length: it is no UTF-16
    EXPECT_EQ(read(write("a.txt",
                         ("one" + separator).append("c\0", 2).append(separator).append("two").append(tail)))
                  .size(),
              2u);
    EXPECT_THAT(refused_, ElementsAre("3:NUL byte"));
  }
  EXPECT_EQ(failure(write("b.txt", "b\xE9")),
            fmt::format("'{}': not UTF-8 at byte 1 (line 1): got 0xe9", path("b.txt")));
}

TEST_F(RefusedTest, APartThatIsTooLongEndsAtItsSeparator) {
  options_.max_document_bytes = 1000;
  const std::string separator = "\n<|endoftext|>\n";
  for (const size_t size : {size_t{1001}, size_t{1} << 20, size_t{5} << 20})
    for (const std::string& piece : {std::string("x"), std::string("xy\n"), std::string("<|endoftext|> ")}) {
      std::string text = "one" + separator;
      while (text.size() < size + 18) text += piece;
      text.append(separator).append("two").append(separator);
      EXPECT_THAT(read(write("a.txt", text)), ElementsAre("one\n", "two\n"));
      EXPECT_THAT(refused_, ElementsAre("3:too long"));
    }
}

// A line of a gigabyte is skipped with a buffer of a few megabytes.
TEST_F(RefusedTest, WhatIsTooLongIsNeverHeld) {
  constexpr uint64_t kPieces = 1 << 14;
  const std::string piece(size_t{1} << 14, 'x');
  std::vector<std::string> kinds, texts;
  const RecordOptions options{.max_bytes = 1 << 20, .refused = [&](const RecordPlace&, const Refusal& why) {
                                kinds.push_back(why.kind);
                              }};
  const auto take = [&](std::string_view text, const RecordPlace&) { texts.emplace_back(text); };
  LongSource lines(line_of("one") + "{\"text\":\"", piece, kPieces, "\"}\n" + line_of("two"));
  for_each_json_document(lines, "a", options, JsonLayout::lines, take);
  LongSource array("[{\"text\":\"one\"},{\"text\":\"", piece, kPieces, "\"},{\"text\":\"two\"}]");
  for_each_json_document(array, "a", options, JsonLayout::array, take);
  LongSource parts("one\n--\n", piece, kPieces, "\n--\ntwo");
  for_each_text_document(parts, "a", {"--"}, options, take);
  EXPECT_THAT(texts, ElementsAre("one", "two", "one", "two", "one\n", "two"));
  EXPECT_THAT(kinds, ElementsAre("too long", "too long", "too long"));
  for (const LongSource* source : {&lines, &array, &parts})
    EXPECT_LE(source->largest_read(), size_t{4} << 20);
}

TEST_F(RefusedTest, ArchivesThatAreCutGiveWhatStandsBeforeTheFault) {
  std::string lines;
  for (int i = 0; i < 20000; ++i) lines += line_of(fmt::format("document {} {}", i, i * 7919LL % 10007));
  for (const auto& [name, good] :
       std::vector<std::pair<std::string, std::string>>{{"gzip", gzip(lines)}, {"zstd", zstd(lines)}}) {
    write("f/b.txt", "after");
    write("f/a.jsonl", good.substr(0, good.size() * 2 / 3));
    read(path("f"));
    EXPECT_THAT(refused_, ElementsAre("0:truncated " + name));
    ASSERT_GT(texts_.size(), 5000u) << name;
    EXPECT_LT(texts_.size(), 20000u);
    EXPECT_EQ(texts_.front(), "document 0 0");
    EXPECT_EQ(texts_.back(), "after");
    EXPECT_EQ(report_.files, 2);
    write("f/a.jsonl", good + "junk");
    read(path("f"));
    EXPECT_THAT(refused_, ElementsAre("0:corrupt " + name));
    EXPECT_EQ(texts_.size(), 20001u);
    std::string flipped = good;
    flipped[good.size() / 2] ^= 0x55;
    write("f/a.jsonl", flipped);
    read(path("f"));
    EXPECT_EQ(texts_.back(), "after");
    EXPECT_GE(report_.refused, 1);
    EXPECT_THAT(failure(path("f")), HasSubstr("a.jsonl"));
  }
  // Also where the fault stands in the bytes by which the format is recognised.
  const std::string few = gzip(line_of("one") + line_of("two") + line_of("three"));
  EXPECT_THAT(read(write("few.jsonl.gz", few.substr(0, few.size() - 8))), ElementsAre("one", "two", "three"));
  EXPECT_THAT(refused_, ElementsAre("0:truncated gzip"));
  EXPECT_THAT(read(write("few.txt.gz", gzip("one\n<|endoftext|>\ntwo").substr(0, 25))), IsEmpty());
  EXPECT_THAT(refused_, ElementsAre("0:truncated gzip"));
  EXPECT_THAT(read(write("short.gz", "\x1f")), IsEmpty());
  EXPECT_THAT(refused_, ElementsAre("0:truncated gzip"));
  EXPECT_THAT(read(write("text.gz", "no gzip at all")), IsEmpty());
  EXPECT_THAT(refused_, ElementsAre("0:foreign format"));
}

TEST_F(RefusedTest, ForeignFilesAreToldAndTheOthersRead) {
  write("f/a.pdf", "%PDF-1.7\n");
  write("f/b.parquet", std::string("PAR1\x15\0", 6));
  write("f/c.txt", "\xff\xfet\0e\0x\0t\0");
  write("f/d.png", std::string("\x89PNG\0\0", 6));
  write("f/e.txt", "text");
  write("f/f.bin", std::string("\x80\0\x81", 3));
  EXPECT_THAT(read(path("f")), ElementsAre("text"));
  EXPECT_EQ(refused_, std::vector<std::string>(5, "0:foreign format"));
  EXPECT_THAT(details_[1], HasSubstr("parquet_to_jsonl.mjs"));
  EXPECT_THAT(report_.left_out, IsEmpty());
  EXPECT_EQ(report_.files, 1);
  options_.refused = nullptr;
  EXPECT_THAT(read_strictly(path("f")), ElementsAre("text"));
  EXPECT_EQ(report_.left_out.size(), 5u);
}

TEST_F(RefusedTest, FaultsOfTheCallerPassThrough) {
  write("a.jsonl", line_of("one"));
  options_.refused = [](const DocumentPlace&, const Refusal&) {};
  EXPECT_THROW(for_each_document(env_, path("a.jsonl"), options_,
                                 [](std::string_view, const DocumentPlace&) {
                                   throw BrokenSource("corrupt gzip", "another file's");
                                 }),
               BrokenSource);
  EXPECT_THROW(for_each_document(env_, path("a.jsonl"), options_,
                                 [](std::string_view, const DocumentPlace&) {
                                   throw RecordError("another file's", {"broken JSON", ""});
                                 }),
               RecordError);
}

TEST_F(RefusedTest, OptionsOutOfRangeAreRefusedByName) {
  write("a.txt", "text");
  options_.format = "jsonnl";
  try {
    read(path("a.txt"));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("jsonnl"), HasSubstr("auto, text, jsonl, csv, wet")));
    EXPECT_THAT(error.hint(), HasSubstr("'jsonl'"));
  }
  options_.format = "auto";
  for (const uint64_t limit : {uint64_t{0}, kMaxDocumentBytes + 1}) {
    options_.max_document_bytes = limit;
    EXPECT_THAT(failure(path("a.txt")), HasSubstr("max_document_bytes"));
  }
}

TEST_F(RefusedTest, AFormatThatIsSaidHolds) {
  const std::string json = "{\"text\":\"a,b\"}\n";
  write("a.x", json);
  options_.format = "text";
  EXPECT_THAT(read(path("a.x")), ElementsAre(json));
  options_.format = "jsonl";
  EXPECT_THAT(read(path("a.x")), ElementsAre("a,b"));
  EXPECT_THAT(read(write("b.x", "prose\n" + json)), ElementsAre("a,b"));
  EXPECT_THAT(refused_, ElementsAre("1:broken JSON"));
  options_.format = "csv";
  EXPECT_THAT(read(write("c.x", "text,n\na,1\n")), ElementsAre("a"));
  options_.format = "wet";
  EXPECT_THAT(read(path("a.x")), IsEmpty());
  EXPECT_THAT(refused_, ElementsAre("1:broken WARC record"));
}

}  // namespace
}  // namespace athanor::tests::refused_test
