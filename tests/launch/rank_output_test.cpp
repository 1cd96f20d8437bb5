#include "athanor/launch/rank_output.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(screen.output.last_words(1).lines, (std::vector<std::string>{"b", "c", "d", "e", "f"}));
  screen.output.add(1, "athanor: error: disk full\n  hint: free some\nend\n", 0);
  EXPECT_EQ(screen.output.last_words(1).error, "disk full");
  EXPECT_EQ(screen.output.last_words(1).hint, "free some");
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

}  // namespace
}  // namespace athanor::tests::rank_output_test
