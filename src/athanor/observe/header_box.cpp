#include "athanor/observe/header_box.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "athanor/base/columns.h"
#include "athanor/base/human.h"

namespace athanor::observe {
namespace {

constexpr size_t kKeyGap = 3, kHalvesGap = 5;

struct BoxRow {
  std::string key;
  std::vector<std::string> cells;
};

std::vector<BoxRow> box_rows(const std::vector<std::pair<std::string, std::string>>& rows,
                             const TerminalStyle& style) {
  std::vector<BoxRow> all;
  for (const auto& [key, value] : rows) {
    BoxRow& row = all.emplace_back(BoxRow{style.shown(key), {}});
    for (std::string_view rest = value;;) {
      const size_t end = rest.find('\t');
      row.cells.push_back(style.shown(rest.substr(0, end)));
      if (end == std::string_view::npos) break;
      rest.remove_prefix(end + 1);
    }
  }
  return all;
}

size_t widest_key(std::span<const BoxRow> rows) {
  size_t width = 0;
  for (const BoxRow& row : rows) width = std::max(width, display_width(row.key));
  return width;
}

// "key   value", the value wrapped, every line at most `columns` wide where that is possible at all.
std::vector<std::pair<std::string, std::string>> box_lines(std::span<const BoxRow> rows, size_t columns) {
  const size_t keys = widest_key(rows),
               room = std::max<size_t>(4, columns - std::min(columns, keys + kKeyGap));
  std::vector<std::pair<std::string, std::string>> lines;
  for (const BoxRow& row : rows) {
    std::string label = row.key;
    const auto pieces =
        row.cells.size() == 1 ? wrap_columns(row.cells[0], room) : grid_columns(row.cells, room, kKeyGap);
    for (const std::string& piece : pieces) {
      lines.emplace_back(pad_columns(label, keys), piece);
      label.clear();
    }
  }
  return lines;
}

size_t line_columns(const std::pair<std::string, std::string>& line) {
  return display_width(line.first) + kKeyGap + display_width(line.second);
}

size_t block_columns(const std::vector<std::pair<std::string, std::string>>& lines) {
  size_t widest = 0;
  for (const auto& line : lines) widest = std::max(widest, line_columns(line));
  return widest;
}

}  // namespace

size_t screen_columns(const std::string& text) {
  std::string visible;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      visible += text[i];
      continue;
    }
    while (i < text.size() && (text[i] < '@' || text[i] > '~' || text[i] == '[')) ++i;  // to the final letter
  }
  return display_width(visible);
}

std::string header_box(const std::string& title, const std::vector<std::pair<std::string, std::string>>& rows,
                       size_t columns, const TerminalStyle& style) {
  constexpr size_t kFrame = 4;         // "│ " and " │"
  constexpr size_t kHalfColumns = 60;  // of which two stand side by side
  const std::vector<BoxRow> all = box_rows(rows, style);
  const size_t most = std::max<size_t>(columns, 20) - kFrame;
  const std::string whole_title = style.shown(title);
  const std::string head(fit_columns(whole_title, most - 1));
  std::vector<std::pair<std::string, std::string>> left, right;
  const size_t half = (most - std::min(most, kHalvesGap)) / 2;
  if (half >= kHalfColumns && all.size() >= 6) {
    // Cut where both halves are about equally long.
    size_t best = ~size_t{0};
    for (size_t cut = 1; cut < all.size(); ++cut) {
      const std::span rows_of_all(all);
      auto first = box_lines(rows_of_all.first(cut), half),
           second = box_lines(rows_of_all.subspan(cut), half);
      const size_t longer = std::max(first.size(), second.size());
      if (longer >= best) continue;
      best = longer;
      left = std::move(first);
      right = std::move(second);
    }
  } else {
    left = box_lines(all, most);
  }
  const size_t left_width = block_columns(left);
  const size_t right_width = right.empty() ? 0 : kHalvesGap + block_columns(right);
  const size_t inner = std::max(left_width + right_width, display_width(head) + 1);
  const Glyphs& g = style.glyphs();
  std::string box = style.painted(kDim, std::string(g.top_left) + g.across + " ") +
                    style.painted(kBold, head) + ' ' +
                    style.painted(kDim, repeat_text(g.across, inner - display_width(head) - 1) + g.top_right);
  for (size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    std::string text;
    size_t used = 0;
    if (i < left.size()) {
      text = style.painted(kDim, left[i].first) + std::string(kKeyGap, ' ') + left[i].second;
      used = line_columns(left[i]);
    }
    if (i < right.size()) {
      const size_t at = left_width + kHalvesGap;
      text += std::string(at - used, ' ') + style.painted(kDim, right[i].first) + std::string(kKeyGap, ' ') +
              right[i].second;
      used = at + line_columns(right[i]);
    }
    box += "\n" + style.painted(kDim, g.down) + " " + text + std::string(inner - used, ' ') + " " +
           style.painted(kDim, g.down);
  }
  return box + "\n" + style.painted(kDim, g.bottom_left + repeat_text(g.across, inner + 2) + g.bottom_right);
}

}  // namespace athanor::observe
