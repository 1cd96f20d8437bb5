#include "athanor/documents/csv_documents.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <rapidcheck.h>

#include <nlohmann/json.hpp>

#include "documents/reading.h"
#include "support/memory_source.h"

namespace athanor::tests::csv_documents_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CsvDocumentsTest : public ReadingTest {
 protected:
  std::vector<std::string> csv(const std::string& content, const std::string& name = "a.csv") {
    return read(write(name, content));
  }
};

TEST_F(CsvDocumentsTest, FieldsOfEveryForm) {
  EXPECT_THAT(csv("id,text,n\n1,plain,2\n2,\"in, quotes\",3\r\n3,\"two\r\nlines\n\",\"\"\n"
                  "4,\"a \"\"word\"\"\",\"\"\"\"\n5,5\" pipe,\n6,\"\",x\n7,last,end"),
              ElementsAre("plain", "in, quotes", "two\r\nlines\n", "a \"word\"", "5\" pipe", "last"));
  EXPECT_THAT(ids_, ElementsAre("1", "2", "3", "4", "5", "7"));
  EXPECT_THAT(records_, ElementsAre(0, 1, 2, 3, 4, 6));
  EXPECT_EQ(report_.empty, 1);
  EXPECT_EQ(report_.json_files, 1);
  EXPECT_THAT(refused_, IsEmpty());
}

TEST_F(CsvDocumentsTest, MetadataAreTheOtherColumnsAsStrings) {
  options_.with_metadata = true;
  csv("id,\"na\"\"me\",text,n\n1,\"x\"\"y\nz\",t,1e999\n2,,u,\n");
  EXPECT_THAT(metadata_, ElementsAre(R"({"na\"me":"x\"y\nz","n":"1e999"})", R"({"na\"me":"","n":""})"));
  options_.text_key = "{text}/{n}";
  options_.id_key = "na\"me";
  EXPECT_THAT(csv("id,\"na\"\"me\",text,n\n1,k,t,\"1\"\"\"\n"), ElementsAre("t/1\""));
  EXPECT_THAT(metadata_, ElementsAre(R"({"id":"1"})"));
  EXPECT_THAT(ids_, ElementsAre("k"));
}

TEST_F(CsvDocumentsTest, TheHeaderShowsTheDelimiter) {
  EXPECT_THAT(csv("a;text;b\n1;x,y;2\n"), ElementsAre("x,y"));
  EXPECT_THAT(csv("a\ttext\n1\tx,y\n", "a.tsv"), ElementsAre("x,y"));
  EXPECT_THAT(csv("\"a;b;c\",text\n1,x;y\n"), ElementsAre("x;y"));
  EXPECT_THAT(csv("text\nx;y\n"), ElementsAre("x;y"));
  EXPECT_THAT(csv("\xEF\xBB\xBFtext,n\nx,1\n"), ElementsAre("x"));
  EXPECT_THAT(csv("\n\r\ntext,n\n\nx,1\n\r\ny,2\n\n"), ElementsAre("x", "y"));
  options_.csv_delimiter = '|';
  EXPECT_THAT(csv("\xEF\xBB\xBF"
                  "text|a,b\nx,y|1\n"),
              ElementsAre("x,y"));
}

TEST_F(CsvDocumentsTest, NamesDecideAlsoUnderACompression) {
  const std::string content = "text,n\nx,1\n";
  EXPECT_THAT(csv(gzip(content), "a.csv.gz"), ElementsAre("x"));
  EXPECT_THAT(csv(zstd(content), "a.CSV.zst"), ElementsAre("x"));
  EXPECT_THAT(csv(content, "a.txt"), ElementsAre(content));
  EXPECT_THAT(csv("", "empty.csv"), IsEmpty());
  EXPECT_THAT(csv("text\n", "header.csv"), IsEmpty());
  EXPECT_THAT(refused_, IsEmpty());
}

TEST_F(CsvDocumentsTest, BrokenRowsAreSkippedAndNamed) {
  const std::string header = "text,n\none,1\n", end = "\ntwo,2\n";
  for (const auto& [bad, kind] : std::vector<std::pair<std::string, std::string>>{
           {"a", "broken CSV row"},
           {"a,1,2", "broken CSV row"},
           {"\"a\"b,1", "broken CSV row"},
           {"\"a\" ,1", "broken CSV row"},
           {"a,\"never closed", "broken CSV row"},
           {"\xE9,1", "invalid UTF-8"},
           {std::string("a\0,1", 4), "NUL byte"},
           {std::string(300, 'x') + ",1", "too long"},
           {"\"" + std::string(300, 'x') + "\",1", "too long"},
           {"\"" + std::string(300, ',') + "\n\"\"\n\",1", "too long"}}) {
    options_.max_document_bytes = 200;
    EXPECT_THAT(csv(fmt::format("{}{}{}", header, bad, end)), ElementsAre("one", "two")) << bad;
    EXPECT_THAT(refused_, ElementsAre("3:" + kind)) << bad;
    EXPECT_THAT(records_, ElementsAre(0, 2));
    EXPECT_THAT(failure(path("a.csv")),
                AllOf(HasSubstr("a.csv"), HasSubstr(kind == "NUL byte" ? "zero byte" : "line 3")))
        << bad;
  }
  EXPECT_THAT(csv(header + "a,1\r" + end), ElementsAre("one", "a", "two"));
  EXPECT_THAT(csv(header + "\"a\",1\n\"b\r\",\"2\""), ElementsAre("one", "a", "b\r"));
}

TEST_F(CsvDocumentsTest, AHeaderWithoutTheTextIsNamed) {
  EXPECT_THAT(csv("body,n\nx,1\n"), IsEmpty());
  EXPECT_THAT(refused_, ElementsAre("0:no text key"));
  EXPECT_EQ(report_.files, 0);
  EXPECT_THAT(failure(path("a.csv")),
              AllOf(HasSubstr("line 1"), HasSubstr("no column 'text', got 'body', 'n'")));
  EXPECT_THAT(failure(write("a.csv", "text,text\nx,1\n")), HasSubstr("2 times"));
  EXPECT_THAT(failure(write("a.csv", "\"text\n")), HasSubstr("never closed"));
  EXPECT_THAT(csv(std::string(70000, ',') + "\n"), IsEmpty());
  EXPECT_THAT(refused_, ElementsAre("0:broken CSV row"));
  write("f/a.csv", "body,n\nx,1\n");
  write("f/b.txt", "text");
  options_.refused = nullptr;
  EXPECT_THAT(read_strictly(path("f")), ElementsAre("text"));
  ASSERT_EQ(report_.left_out.size(), 1u);
  EXPECT_EQ(report_.left_out[0].reason, "CSV, no column 'text', got 'body', 'n'");
  EXPECT_THAT(failure(write("f/a.csv", "text,n\nx\n")), HasSubstr("line 2"));
}

// Of a row with many fields only as many are held as there are columns.
TEST_F(CsvDocumentsTest, LongRowsAreNotHeld) {
  for (const std::string& piece :
       {std::string(1 << 14, 'x'), std::string(1 << 14, ','), std::string(1 << 14, '\n')}) {
    std::vector<std::string> texts, kinds;
    const RecordOptions options{.max_bytes = 1 << 20, .refused = [&](const RecordPlace&, const Refusal& why) {
                                  kinds.push_back(why.kind);
                                }};
    LongSource source("text,n\none,1\n\"", piece, 1 << 13, "\",2\ntwo,2\n");
    for_each_csv_document(source, "a.csv", options, '\0',
                          [&](std::string_view text, const RecordPlace&) { texts.emplace_back(text); });
    EXPECT_THAT(texts, ElementsAre("one", "two"));
    EXPECT_THAT(kinds, ElementsAre("too long"));
    EXPECT_LE(source.largest_read(), size_t{4} << 20);
  }
}

std::string quoted(const std::string& field, char delimiter, bool always) {
  if (!always && field.find_first_of(std::string("\"\r\n") + delimiter) == std::string::npos) return field;
  std::string out = "\"";
  for (const char c : field) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

// Gives a source a few bytes at a time, as a slow pipe does.
class TrickleSource : public ByteSource {
 public:
  TrickleSource(std::string_view bytes, size_t step) : source_(bytes), step_(step) {}
  size_t read(char* out, size_t max_bytes) override { return source_.read(out, std::min(max_bytes, step_)); }
  uint64_t raw_bytes() const override { return source_.raw_bytes(); }

 private:
  MemorySource source_;
  size_t step_;
};

TEST_F(CsvDocumentsTest, WhatWasWrittenIsReadAgain) {
  EXPECT_TRUE(rc::check("rows of any fields", [] {
    const char delimiter = *rc::gen::element(',', ';', '\t');
    const auto characters = rc::gen::element('"', ',', ';', '\t', '\n', '\r', 'a', ' ');
    using Rows = std::vector<std::vector<std::string>>;
    const auto columns = *rc::gen::inRange<size_t>(2, 5);
    const auto rows = *rc::gen::container<Rows>(
        rc::gen::container<std::vector<std::string>>(columns, rc::gen::container<std::string>(characters)));
    const bool always = *rc::gen::arbitrary<bool>();
    const auto line_end = *rc::gen::element<std::string>("\n", "\r\n");
    const bool ends = *rc::gen::arbitrary<bool>();
    std::string file = "text";
    for (size_t c = 1; c < columns; ++c) file += delimiter + fmt::format("c{}", c);
    for (const auto& row : rows) {
      file += line_end;
      for (size_t c = 0; c < columns; ++c)
        file += (c > 0 ? std::string(1, delimiter) : "") + quoted(row[c], delimiter, always);
    }
    if (ends) file += line_end;
    Rows found;
    TrickleSource source(file, *rc::gen::inRange<size_t>(1, 9));
    for_each_csv_document(source, "a.csv", {.with_metadata = true}, '\0',
                          [&](std::string_view text, const RecordPlace& place) {
                            found.push_back({std::string(text)});
                            const auto others = nlohmann::json::parse(place.metadata);
                            for (size_t c = 1; c < columns; ++c)
                              found.back().push_back(others.at(fmt::format("c{}", c)));
                          });
    RC_ASSERT(found == rows);
  }));
}

}  // namespace
}  // namespace athanor::tests::csv_documents_test
