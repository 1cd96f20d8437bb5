#include "athanor/base/columns.h"

#include <algorithm>

#include "athanor/base/human.h"

namespace athanor::base {

std::string pad_columns(std::string_view text, size_t columns) {
  const size_t used = display_width(text);
  return std::string(text) + std::string(used < columns ? columns - used : 0, ' ');
}

std::vector<std::string> wrap_columns(std::string_view text, size_t columns) {
  std::vector<std::string> lines;
  columns = std::max<size_t>(columns, 2);
  while (display_width(text) > columns) {
    std::string_view piece = fit_columns(text, columns);
    const size_t space = text.substr(0, piece.size() + 1).rfind(' ');
    if (space != std::string_view::npos && space > 0) piece = text.substr(0, space);
    text.remove_prefix(piece.size());
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    while (piece.ends_with(' ')) piece.remove_suffix(1);
    lines.emplace_back(piece);
  }
  lines.emplace_back(text);
  return lines;
}

std::vector<std::string> grid_columns(const std::vector<std::string>& cells, size_t columns, size_t gap) {
  size_t widest = 1;
  for (const std::string& cell : cells) widest = std::max(widest, display_width(cell));
  const size_t in_a_row = std::max<size_t>(1, (columns + gap) / (widest + gap));
  std::vector<std::string> lines;
  for (size_t first = 0; first < cells.size(); first += in_a_row) {
    std::string line;
    const size_t last = std::min(first + in_a_row, cells.size());
    for (size_t i = first; i < last; ++i)
      line += i + 1 < last ? pad_columns(cells[i], widest + gap) : cells[i];
    for (std::string& piece : wrap_columns(line, columns)) lines.push_back(std::move(piece));
  }
  return lines;
}

std::string repeat_text(std::string_view text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

}  // namespace athanor::base
