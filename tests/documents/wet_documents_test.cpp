#include "athanor/documents/wet_documents.h"

#include <gmock/gmock.h>

#include "documents/reading.h"

namespace athanor::tests::wet_documents_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string record(const std::string& type, const std::string& headers, const std::string& content) {
  return fmt::format("WARC/1.0\r\nWARC-Type: {}\r\n{}Content-Length: {}\r\n\r\n{}\r\n\r\n", type, headers,
                     content.size(), content);
}
std::string info() {
  return record("warcinfo", "WARC-Filename: a.warc.wet.gz\r\n", "Software-Info: x\r\nWARC/1.0\r\n");
}
std::string text(const std::string& content, int number = 1) {
  return record("conversion",
                fmt::format("WARC-Target-URI: http://example.org/{0}\r\nWARC-Date: 2024-02-21T00:00:0{0}Z\r\n"
                            "WARC-Record-ID: <urn:uuid:{0}>\r\nContent-Type: text/plain\r\n",
                            number),
                content);
}

class WetDocumentsTest : public ReadingTest {
 protected:
  std::vector<std::string> wet(const std::string& content, const std::string& name = "a.wet") {
    return read(write(name, content));
  }
};

TEST_F(WetDocumentsTest, TextsComeWithTheirMetadata) {
  options_.with_metadata = true;
  const std::string spoken =
      record("conversion",
             "warc-target-uri:http://example.org/\"q\"\r\nWARC-Identified-Content-Language: "
             "zho,eng\r\nX: a\r\n b\r\n",
             "\xE6\xB0\xB4\n");
  const std::string content = info() + text("one\nWARC/1.0\r\n\r\n") +
                              record("metadata", "", "languages-cld2: {}") + spoken + text("", 3) +
                              text("two", 4);
  for (const char* name : {"a.wet", "a.txt", "b.warc.wet"}) {
    EXPECT_THAT(wet(content, name), ElementsAre("one\nWARC/1.0\r\n\r\n", "\xE6\xB0\xB4\n", "two"));
    EXPECT_THAT(ids_, ElementsAre("<urn:uuid:1>", "", "<urn:uuid:4>"));
    EXPECT_THAT(
        metadata_,
        ElementsAre(
            R"({"url":"http://example.org/1","date":"2024-02-21T00:00:01Z","WARC-Record-ID":"<urn:uuid:1>"})",
            R"({"url":"http://example.org/\"q\"","language":"zho,eng"})",
            R"({"url":"http://example.org/4","date":"2024-02-21T00:00:04Z","WARC-Record-ID":"<urn:uuid:4>"})"));
    EXPECT_THAT(records_, ElementsAre(0, 1, 3));
    EXPECT_EQ(report_.empty, 1);
    EXPECT_THAT(refused_, IsEmpty());
  }
  EXPECT_THAT(wet(gzip(info()) + gzip(text("one")) + gzip(text("two")), "a.warc.wet.gz"),
              ElementsAre("one", "two"));
}

TEST_F(WetDocumentsTest, BrokenRecordsAreSkippedAndNamed) {
  const std::string end = text("two");
  for (const auto& [bad, kind] : std::vector<std::pair<std::string, std::string>>{
           {"WARC/1.0\r\nWARC-Type: conversion\r\n\r\nabc\r\n\r\n", "broken WARC record"},
           {"WARC/1.0\r\nContent-Length: 3\r\n\r\nabc\r\n\r\n", "broken WARC record"},
           {"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 3x\r\n\r\nabc\r\n\r\n",
            "broken WARC record"},
           {"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: -1\r\n\r\nabc\r\n\r\n",
            "broken WARC record"},
           {"WARC/1.0\r\nno colon\r\n\r\n", "broken WARC record"},
           {"junk\nmore junk\n", "broken WARC record"},
           {"WARC/1.0\r\n" + std::string(70000, 'x') + "\r\n", "broken WARC record"},
           {text("\xE9"), "invalid UTF-8"},
           {text(std::string("a\0b", 3)), "NUL byte"},
           {text(std::string(2000, '\n')), "too long"}}) {
    options_.max_document_bytes = 1000;
    EXPECT_THAT(wet(text("one").append(bad).append(end)), ElementsAre("one", "two")) << bad.substr(0, 99);
    EXPECT_THAT(refused_, ElementsAre("11:" + kind)) << bad.substr(0, 99);
    EXPECT_THAT(failure(path("a.wet")), AllOf(HasSubstr("a.wet"), HasSubstr("line 11"))) << bad.substr(0, 99);
  }
  // A length that is a lie hides what is behind it, and no more.
  std::string lie = text("one");
  lie.replace(lie.find("Length: 3"), 9, "Length: 2");
  EXPECT_THAT(wet(lie + end), ElementsAre("on", "two"));
  EXPECT_THAT(refused_, ElementsAre("9:broken WARC record"));
}

TEST_F(WetDocumentsTest, ATextThatIsCutIsNotGiven) {
  const std::string good = text("one") + text("two and more");
  for (const size_t cut : {size_t{5}, size_t{10}, size_t{60}}) {
    EXPECT_THAT(wet(good.substr(0, good.size() - cut)), ElementsAre("one"));
    EXPECT_THAT(refused_, ElementsAre("11:broken WARC record"));
  }
  EXPECT_EQ(wet(good.substr(0, good.size() - 4)).size(), 2u);
}

TEST_F(WetDocumentsTest, PagesAsTheyWereFetchedAreForeign) {
  const std::string pages = info() + record("request", "", "GET /") + record("response", "", "HTTP/1.1 200");
  EXPECT_THAT(wet(pages, "a.warc"), IsEmpty());
  EXPECT_THAT(refused_, ElementsAre("0:foreign format"));
  EXPECT_THAT(failure(path("a.warc")), AllOf(HasSubstr("type request"), HasSubstr("WET")));
  write("f/a.warc", pages);
  write("f/b.txt", "text");
  options_.refused = nullptr;
  EXPECT_THAT(read_strictly(path("f")), ElementsAre("text"));
  ASSERT_EQ(report_.left_out.size(), 1u);
  EXPECT_THAT(report_.left_out[0].reason, HasSubstr("WARC, a WARC archive of pages"));
}

TEST_F(WetDocumentsTest, HeadersOfAnyBytesGiveValidMetadata) {
  options_.with_metadata = true;
  wet(record("conversion", "WARC-Target-URI: http://x/\xE9\r\nWARC-Record-ID: \xFF\r\n", "t"));
  EXPECT_THAT(metadata_, ElementsAre(R"({"url":"http://x/?","WARC-Record-ID":"?"})"));
}

TEST_F(WetDocumentsTest, LongTextsAreNotHeld) {
  std::vector<std::string> texts, kinds;
  const RecordOptions options{.max_bytes = 1 << 20, .refused = [&](const RecordPlace&, const Refusal& why) {
                                kinds.push_back(why.kind);
                              }};
  LongSource source(
      text("one") + fmt::format("WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: {}\r\n\r\n", 1 << 27),
      std::string(1 << 14, 'x'), 1 << 13, "\r\n\r\n" + text("two"));
  for_each_wet_document(source, "a.wet", options,
                        [&](std::string_view found, const RecordPlace&) { texts.emplace_back(found); });
  EXPECT_THAT(texts, ElementsAre("one", "two"));
  EXPECT_THAT(kinds, ElementsAre("too long"));
  EXPECT_LE(source.largest_read(), size_t{4} << 20);
}

}  // namespace
}  // namespace athanor::tests::wet_documents_test
