#include "athanor/documents/file_format.h"

#include <gmock/gmock.h>

namespace athanor::tests::file_format_test {
namespace {

using namespace std::string_view_literals;
using ::testing::HasSubstr;

std::string wide(std::u32string_view text, size_t width, bool big_endian) {
  std::string bytes;
  for (const char32_t c : text)
    for (size_t i = 0; i < width; ++i)
      bytes += static_cast<char>(c >> 8 * (big_endian ? width - 1 - i : i) & 0xFF);
  return bytes;
}

TEST(FileFormat, FormatsAreNamed) {
  for (const auto& [head, what] :
       std::vector<std::pair<std::string_view, const char*>>{{"PAR1\x15\0"sv, "Parquet"},
                                                             {"ARROW1\0\0"sv, "Arrow"},
                                                             {"ORC\x01\0"sv, "ORC"},
                                                             {"%PDF-1.7\n"sv, "PDF"},
                                                             {"PK\x03\x04\x14\0"sv, "zip"},
                                                             {"SQLite format 3\0"sv, "SQLite"},
                                                             {"\x93NUMPY\x01\0"sv, "NumPy"},
                                                             {"{\\rtf1 text}"sv, "RTF"},
                                                             {"7z\xbc\xaf\x27\x1c"sv, "7z"},
                                                             {"\x04\x22\x4d\x18"sv, "lz4"},
                                                             {"WARC/1.0\r\n"sv, "WARC"},
                                                             {"\x1f\x8b\x08"sv, "gzip inside"},
                                                             {"\xfd"
                                                              "7zXZ\0"sv,
                                                              "xz inside"},
                                                             {"BZh91AY&SY"sv, "bzip2 inside"},
                                                             {"a\0b"sv, "binary"}})
    EXPECT_THAT(foreign_format(head), HasSubstr(what)) << what;
  std::string tar(512, '\0');
  tar.replace(0, 5, "a.txt").replace(257, 5, "ustar");
  EXPECT_THAT(foreign_format(tar), HasSubstr("tar"));
  for (const std::string_view text : {""sv, "text"sv, "PARIS"sv, "PARENTS"sv, "PAR1 is a protein"sv,
                                      "ORCHARDS"sv, "BZhello"sv, "{\"text\""sv, "ORACLE"sv, "\xE6\xB0\xB4"sv})
    EXPECT_EQ(foreign_format(text), "") << text;
}

TEST(FileFormat, WideTextIsNamedWithAndWithoutAMark) {
  for (const std::u32string_view text :
       {U"plain\n"sv,
        U"\u6c34\u706b \u571f\u6c34\u706b\u571f\u6c34\u706b\u571f\u6c34\u706b\u571f\u6c34\u706b\u571f\n"sv,
        U"\ufeffmark"sv, U"\ufeff\u6c34"sv}) {
    EXPECT_THAT(foreign_format(wide(text, 2, false)), HasSubstr("UTF-16 text (little-endian)"));
    EXPECT_THAT(foreign_format(wide(text, 2, true)), HasSubstr("UTF-16 text (big-endian)"));
    EXPECT_THAT(foreign_format(wide(text, 4, false)), HasSubstr("UTF-32 text (little-endian)"));
    EXPECT_THAT(foreign_format(wide(text, 4, true)), HasSubstr("UTF-32 text (big-endian)"));
  }
}

TEST(FileFormat, SuffixesPromiseAndMagicBytesDecide) {
  EXPECT_EQ(promised_compression("a.jsonl.GZ"), SourceCompression::gzip);
  EXPECT_EQ(promised_compression("a.zstd"), SourceCompression::zstd);
  EXPECT_EQ(promised_compression("gz"), SourceCompression::none);
  EXPECT_EQ(without_compression_suffix("a.jsonl.bz2"), "a.jsonl");
  EXPECT_EQ(recognize_compression("\x50\x2a\x4d\x18\x04\0\0\0"sv),
            SourceCompression::zstd);  // a frame to skip
  EXPECT_EQ(recognize_compression("\x5f\x2a\x4d\x18"sv), SourceCompression::zstd);
  EXPECT_EQ(recognize_compression("BZh9"sv), SourceCompression::none);
}

}  // namespace
}  // namespace athanor::tests::file_format_test
