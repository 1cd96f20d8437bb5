#include "athanor/base/columns.h"

#include <gtest/gtest.h>

#include "athanor/base/human.h"

namespace athanor::tests::columns_test {
namespace {

using Lines = std::vector<std::string>;

TEST(Columns, PadsByWhatIsSeen) {
  EXPECT_EQ(pad_columns("en", 5), "en   ");
  EXPECT_EQ(pad_columns("代码", 5), "代码 ");
  EXPECT_EQ(pad_columns("longer", 3), "longer");
}

TEST(Columns, WrapsAtWordsAndCutsWhatIsLonger) {
  EXPECT_EQ(wrap_columns("a long story", 6), (Lines{"a long", "story"}));
  EXPECT_EQ(wrap_columns("a long story", 80), Lines{"a long story"});
  EXPECT_EQ(wrap_columns("abcdefgh ij", 4), (Lines{"abcd", "efgh", "ij"}));
  EXPECT_EQ(wrap_columns("", 4), Lines{""});
  EXPECT_EQ(wrap_columns("a  b   c", 3), (Lines{"a", "b", "c"}));
  for (size_t width = 0; width < 30; ++width)
    for (const std::string& line : wrap_columns("中文 and words of several lengths 代码", width)) {
      EXPECT_LE(display_width(line), std::max<size_t>(width, 2)) << width;
      EXPECT_FALSE(line.ends_with(' '));
    }
}

TEST(Columns, AGridTakesAsManyCellsAsFit) {
  const Lines cells = {"en 5.0", "zh 6.25", "code 7"};
  EXPECT_EQ(grid_columns(cells, 80, 3), Lines{"en 5.0    zh 6.25   code 7"});
  EXPECT_EQ(grid_columns(cells, 17, 3), (Lines{"en 5.0    zh 6.25", "code 7"}));
  EXPECT_EQ(grid_columns(cells, 16, 3), cells);
  EXPECT_EQ(grid_columns({}, 16, 3), Lines{});
  for (size_t width = 2; width < 40; ++width)
    for (const std::string& line : grid_columns(cells, width, 2)) EXPECT_LE(display_width(line), width);
}

}  // namespace
}  // namespace athanor::tests::columns_test
