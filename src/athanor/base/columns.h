// Text laid out in columns of a terminal: padded, wrapped at words, set as a grid.
//
//   pad_columns("en", 5)                        "en   "
//   wrap_columns("a long story", 6)             {"a long", "story"}
//   grid_columns({"en 5.01", "zh 6.2"}, 80, 3)  {"en 5.01   zh 6.2"}
//
// Widths are those of display_width() (human.h). Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::base {

std::string pad_columns(std::string_view text, size_t columns);  // with spaces on the right

// Breaks at spaces, and inside a word only if the word is longer than a line. At least one line.
std::vector<std::string> wrap_columns(std::string_view text, size_t columns);

// Cells side by side, `gap` spaces between them, row by row: as many in a row as fit, at least one. All cells get the
// width of the widest cell; a cell wider than a line is wrapped.
std::vector<std::string> grid_columns(const std::vector<std::string>& cells, size_t columns, size_t gap);

std::string repeat_text(std::string_view text, size_t times);

}  // namespace athanor::base
