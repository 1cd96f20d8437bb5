// A titled box of keys and values for a terminal of any width; in a wide terminal the rows are in two columns.
//
//   header_box("athanor · first", {{"model", "llama, 8 x 256"}, {"memory", "38 MiB\tparameters 6 MiB"}}, 80, style)
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "athanor/observe/terminal_style.h"

namespace athanor::observe {

// The last line has no line end. Cells of a value are separated by tabs (console.h, kNextCell).
std::string header_box(const std::string& title, const std::vector<std::pair<std::string, std::string>>& rows,
                       size_t columns, const TerminalStyle& style);

// Columns that text takes on the screen, not counting escape sequences.
size_t screen_columns(const std::string& text);

}  // namespace athanor::observe
