#include "athanor/base/human.h"

#include <gtest/gtest.h>

namespace athanor::tests::human_test {
namespace {

TEST(Human, CountsBytesAndCommas) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(1234), "1.2 K");
  EXPECT_EQ(human_count(999999), "1.0 M");  // not "1000.0 K"
  EXPECT_EQ(human_count(124439808), "124.4 M");
  EXPECT_EQ(human_count(6738415616.0), "6.7 B");
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1288490189), "1.2 GiB");
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(-1000), "-1,000");
  EXPECT_EQ(with_commas(6738415616), "6,738,415,616");
  EXPECT_EQ(with_commas(-123456), "-123,456");
}

TEST(Human, ReadsBytes) {
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("512"), 512);
  EXPECT_EQ(parse_bytes("512 B"), 512);
  EXPECT_EQ(parse_bytes("64 KiB"), 64 << 10);
  EXPECT_EQ(parse_bytes("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(parse_bytes("2g"), int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("2 GB"), int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("1e3"), 1000);
  for (const char* text :
       {"", " ", "GiB", "-1", "1 X", "1 KK", "1ib", "nan", "inf", "1e30", "9999999 PiB", "2 GiB!"})
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
}

TEST(Human, Seconds) {
  EXPECT_EQ(human_seconds(0), "0s");
  EXPECT_EQ(human_seconds(0.00085), "850 µs");
  EXPECT_EQ(human_seconds(0.012), "12 ms");
  EXPECT_EQ(human_seconds(3.44), "3.4s");
  EXPECT_EQ(human_seconds(59.7), "1m00s");
  EXPECT_EQ(human_seconds(62), "1m02s");
  EXPECT_EQ(human_seconds(3723), "1h02m");
  EXPECT_EQ(human_seconds(3600 * 76), "3d04h");
  EXPECT_EQ(human_seconds(-1), "?");
  EXPECT_EQ(human_seconds(1e300), "years");
}

TEST(Human, PrintableStripsWhatSteersATerminal) {
  EXPECT_EQ(printable("plain 中文 é"), "plain 中文 é");
  EXPECT_EQ(printable("a\x1b[31mb\n\x7f"), "a?[31mb??");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "?31m");  // C1 control sequence introducer
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "txt"),
            "?txt");                                 // right-to-left override
  EXPECT_EQ(printable("\xff\xc3"), "??");            // not UTF-8, cut UTF-8
  EXPECT_EQ(printable("\xed\xa0\x80"), "???");       // surrogate
  EXPECT_EQ(printable("\xc0\xaf"), "??");            // overlong
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "????");  // above U+10FFFF
}

TEST(Human, DisplayWidthAndFit) {
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("中文"), 4u);
  EXPECT_EQ(display_width("e\xcc\x81"), 1u);
  EXPECT_EQ(fit_columns("中文ab", 3), "中");
  EXPECT_EQ(fit_columns("中文ab", 5), "中文a");
  EXPECT_EQ(fit_columns("ab", 9), "ab");
}

}  // namespace
}  // namespace athanor::tests::human_test
