#include "athanor/launch/output/rank_output.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace athanor::tests::rank_output_test {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

struct Screen {
  std::string text;
  RankOutput output;
  explicit Screen(int ranks) : output(ranks, [this](std::string_view bytes) { text += bytes; }) {}
};

TEST(RankOutput, RankZeroAsItComes) {
  Screen screen(2);
  screen.output.add(0, "\rstep 1", 0);
  screen.output.add(0, "\rstep 2\nhalf", 0);
  EXPECT_EQ(screen.text, "\rstep 1\rstep 2\nhalf");
  EXPECT_FALSE(screen.output.holds());
}

TEST(RankOutput, LinesOfOthersAreMarked) {
  Screen screen(3);
  screen.output.add(1, "first\nsec", 0);
  screen.output.add(2, "other\n", 0);
  screen.output.add(1, "ond\nunfinished", 0);
  screen.output.flush(0);
  EXPECT_EQ(screen.text, "");  // held for the others
  screen.output.flush(kSecond);
  EXPECT_EQ(screen.text, "[rank 1] first\n[rank 2] other\n[rank 1] second\n");
  screen.output.end_of(1, kSecond);
  screen.output.flush(kSecond, true);
  EXPECT_EQ(screen.text, "[rank 1] first\n[rank 2] other\n[rank 1] second\n[rank 1] unfinished\n");
}

TEST(RankOutput, EqualLinesOnce) {
  Screen screen(6);
  for (int rank : {5, 1, 2, 3}) screen.output.add(rank, "warning: slow disk\n", rank);
  screen.output.add(1, "warning: slow disk\n", 6);  // twice by one rank is twice
  screen.output.flush(kSecond, true);
  EXPECT_EQ(screen.text, "[ranks 1-3,5] warning: slow disk\n[rank 1] warning: slow disk\n");
}

TEST(RankOutput, NotWhatRankZeroSaid) {
  Screen screen(2);
  screen.output.add(1, "same\n", 0);
  screen.output.add(0, "same\n", 5);
  screen.output.flush(kSecond);
  EXPECT_EQ(screen.text, "same\n");
}

TEST(RankOutput, LastWords) {
  Screen screen(2);
  EXPECT_TRUE(screen.output.last_words(1).lines.empty());
  screen.output.add(1, "a\nb\nc\nd\ne\nf\n", 0);
  EXPECT_EQ(screen.output.last_words(1).lines, (std::vector<std::string>{"a", "b", "c", "d", "e", "f"}));
  screen.output.add(1, "athanor: error: disk full\n  hint: free some\nend\n", 0);
  EXPECT_EQ(screen.output.last_words(1).error, "disk full");
  EXPECT_EQ(screen.output.last_words(1).hint, "free some");
  EXPECT_EQ(screen.output.last_words(1).lines.back(), "end");
  for (int i = 0; i < 20; ++i) screen.output.add(1, "more\n", 0);
  EXPECT_EQ(screen.output.last_words(1).lines.size(), 12u);
}

TEST(RankOutput, ANewProcessOfARankBeginsAnew) {
  Screen screen(2);
  screen.output.add(1, "athanor: error: disk full\nhalf", 0);
  screen.output.begin(1, 0);
  EXPECT_TRUE(screen.output.last_words(1).lines.empty());
  screen.output.add(1, "whole\n", 0);
  screen.output.begin(3, 0);  // a rank that there was not
  screen.output.add(3, "new\n", 0);
  EXPECT_EQ(screen.output.last_words(3).lines, (std::vector<std::string>{"new"}));
  screen.output.flush(0, true);
  EXPECT_EQ(screen.text, "[rank 1] athanor: error: disk full\n[rank 1] half\n[rank 1] whole\n[rank 3] new\n");
}

TEST(RankOutput, EndlessLinesAreCut) {
  Screen screen(2);
  for (int i = 0; i < 100; ++i) screen.output.add(1, std::string(1000, 'x'), 0);
  screen.output.end_of(1, 0);
  screen.output.flush(0, true);
  EXPECT_EQ(std::count(screen.text.begin(), screen.text.end(), 'x'), 100'000);
  EXPECT_EQ(std::count(screen.text.begin(), screen.text.end(), '\n'), 13);
}

TEST(RankOutput, AnEndlessLineIsCutOffAndCounted) {
  Screen screen(2);
  const std::string block(1 << 16, 'x');
  for (int i = 0; i < 1600; ++i) screen.output.add(1, block, 0);  // 100 MiB
  EXPECT_TRUE(screen.output.holds());
  screen.output.add(1, "\nathanor: error: disk full\n", kSecond);
  screen.output.end_of(1, kSecond);
  screen.output.flush(2 * kSecond);
  EXPECT_LT(screen.text.size(), size_t{2} << 20);
  EXPECT_NE(screen.text.find("[rank 1] 99.0 MiB of its output are not shown: it writes too fast\n"),
            std::string::npos)
      << screen.text.substr(screen.text.size() - 300);
  EXPECT_FALSE(screen.output.holds());
  EXPECT_EQ(screen.output.tail(1).size(), kTailBytes);
  EXPECT_EQ(screen.output.last_words(1).error, "disk full");
}

TEST(RankOutput, AfterAFloodLinesAreShownAgainFromTheNextOne) {
  Screen screen(2);
  for (int i = 0; i < 40'000; ++i) screen.output.add(1, "a line of a flood with some length\n", 0);
  screen.output.add(1, std::string(200, 'x'), 0);  // half of
  screen.output.flush(kSecond, true);
  screen.text.clear();
  screen.output.add(1, "a line\nwhole\n", 10 * kSecond);
  screen.output.flush(20 * kSecond, true);
  EXPECT_EQ(screen.text, "[rank 1] whole\n[rank 1] 7 B of its output are not shown: it writes too fast\n");
}

// Of several floods each is said, but not a hundred times a second.
TEST(RankOutput, WhatIsLeftOutIsSaidNowAndThen) {
  Screen screen(2);
  const std::string block(1 << 16, '\n');
  int64_t now = 0;
  for (; now < 12 * kSecond; now += kSecond / 100) {
    screen.output.add(1, block, now);
    screen.output.flush(now);
  }
  size_t count = 0;
  for (size_t at = 0; (at = screen.text.find("too fast", at)) != std::string::npos; ++at) ++count;
  EXPECT_EQ(count, 3u);
}

TEST(RankOutput, WhatIsNeitherShownNorKeptNeedNotBeAdded) {
  Screen screen(2);
  EXPECT_EQ(screen.output.leave_out_of(1, size_t{1} << 20, 0), 0u);  // it can all be shown
  screen.output.add(1, "half", 0);
  EXPECT_EQ(screen.output.leave_out_of(1, size_t{1} << 20, 0), (size_t{1} << 20) - kTailBytes);
  screen.output.add(1, "rest\nwhole\n", 0);
  EXPECT_EQ(screen.output.leave_out_of(1, kTailBytes, 0), 0u);
  screen.output.flush(0, true);
  EXPECT_EQ(
      screen.text,
      "[rank 1] half\n[rank 1] whole\n[rank 1] 960.0 KiB of its output are not shown: it writes too fast\n");
}

TEST(RankOutput, AFloodOfRankZeroIsCutOffToo) {
  Screen screen(1);
  const std::string block(1 << 16, 'y');
  for (int i = 0; i < 160; ++i) screen.output.add(0, block, 0);
  screen.output.flush(kSecond);
  EXPECT_NE(screen.text.find("y\n[rank 0] 9.0 MiB of its output are not shown"), std::string::npos);
}

// Quadratic, this would take minutes.
TEST(HeldLines, ManyLinesTakeTheTimeOfMany) {
  HeldLines held;
  for (int i = 0; i < 200'000; ++i) {
    held.add(1, "the same", i);
    held.add(2, std::to_string(i), i);
  }
  for (int i = 0; i < 200'000; ++i) held.add(3, "the same", i);
  size_t of_both = 0, of_one = 0;
  held.take(1'000'000, [&](const HeldLines::Line& line) { ++(line.ranks.size() == 2 ? of_both : of_one); });
  EXPECT_EQ(of_both, 200'000u);
  EXPECT_EQ(of_one, 200'000u);
  EXPECT_TRUE(held.is_empty());
}

TEST(HeldLines, ARankWhoseLineHasGoneIsNotAheadOfTheOthers) {
  HeldLines held;
  held.add(1, "a", 0);
  held.take(0, [](const HeldLines::Line&) {});
  held.add(1, "b", 1);
  held.add(2, "a", 1);
  held.add(1, "a", 1);
  std::vector<std::vector<int>> ranks;
  held.take(1, [&](const HeldLines::Line& line) { ranks.push_back(line.ranks); });
  EXPECT_EQ(ranks, (std::vector<std::vector<int>>{{1}, {2, 1}}));
}

TEST(LineCutter, CutsAsATerminalShows) {
  std::vector<std::string> lines;
  const auto take = [&](std::string line) { lines.push_back(std::move(line)); };
  LineCutter cutter;
  for (const char* part : {"10 %\r20 %\r", "done\nwindows\r\n\n", "un", "finished\r"}) cutter.add(part, take);
  cutter.end(take);
  EXPECT_EQ(lines, (std::vector<std::string>{"done", "windows", "", "unfinished"}));
}

TEST(LogTail, KeepsTheNewestBytes) {
  for (const size_t size : {1u, 3u, 10u}) {
    LogTail tail(size);
    std::string all;
    EXPECT_TRUE(tail.is_empty());
    for (int i = 0; i < 50; ++i) {
      const std::string part = std::to_string(i * i * i);
      all += part;
      tail.add(part);
      EXPECT_EQ(tail.text(), all.substr(all.size() - std::min(all.size(), size)));
      EXPECT_EQ(tail.is_cut(), all.size() > size);
    }
    tail.clear();
    EXPECT_TRUE(tail.is_empty());
    EXPECT_FALSE(tail.is_cut());
  }
}

}  // namespace
}  // namespace athanor::tests::rank_output_test
