#include <fmt/core.h>

#include <algorithm>

#include "apps/athanor/attention/mask_cells.h"
#include "apps/athanor/attention/shown_attention.h"
#include "athanor/base/columns.h"
#include "athanor/base/human.h"

namespace athanor::apps {
namespace {

constexpr int64_t kMostColumns = 64;
constexpr int64_t kWideCells = 32;  // so few have two columns and a line each

// A character holds two cells, one above the other. Without colour what is seen in part is half as wide.
const char* glyph(Seen above, Seen below) {
  static constexpr const char* kGlyphs[3][3] = {{" ", "▖", "▄"}, {"▘", "▌", "▙"}, {"▀", "▛", "█"}};
  return kGlyphs[static_cast<size_t>(above)][static_cast<size_t>(below)];
}

// Of the 256 colours; both can be read on black and on white.
constexpr int kInFull = 33, kInPart = 110;
int colour_of(Seen seen) {
  return seen == Seen::all ? kInFull : kInPart;
}

std::string painted_cell(Seen above, Seen below) {
  if (above == Seen::none && below == Seen::none) return " ";
  if (above == below) return fmt::format("\x1b[38;5;{}m█\x1b[0m", colour_of(above));
  if (above == Seen::none) return fmt::format("\x1b[38;5;{}m▄\x1b[0m", colour_of(below));
  if (below == Seen::none) return fmt::format("\x1b[38;5;{}m▀\x1b[0m", colour_of(above));
  return fmt::format("\x1b[38;5;{};48;5;{}m▀\x1b[0m", colour_of(above), colour_of(below));
}

std::string cell_text(Seen above, Seen below, bool color) {
  return color ? painted_cell(above, below) : glyph(above, below);
}

std::string picture(const MaskCells& cells, int64_t room, bool color) {
  const int64_t size = cells.size();
  const bool wide = size <= kWideCells && 2 * size <= room;
  const auto width = static_cast<size_t>(wide ? 2 * size : size);
  const std::string edge = repeat_text("─", width);
  std::string text = "┌" + edge + "┐\n";
  for (int64_t row = 0; row < size; row += wide ? 1 : 2) {
    text += "│";
    for (int64_t column = 0; column < size; ++column) {
      const Seen above = cells.seen(row, column);
      const Seen below = wide ? above : row + 1 < size ? cells.seen(row + 1, column) : Seen::none;
      text += cell_text(above, below, color);
      if (wide) text += cell_text(above, below, color);
    }
    text += "│\n";
  }
  return text + "└" + edge + "┘\n";
}

}  // namespace

std::string attention_text(const ShownAttention& shown, const AttentionTextStyle& style) {
  const AttentionPlace& place = shown.place;
  std::string text =
      fmt::format("{}\nlayer {}, {} head{}, {} positions; mask {}\n", shown.pattern, place.layer, place.heads,
                  place.heads == 1 ? "" : "s", with_commas(place.length),
                  human_bytes(static_cast<double>(shown.mask.bytes())));
  const int64_t room = static_cast<int64_t>(std::max<size_t>(style.columns, 22)) - 2;
  for (const HeadGroup& group : shown.groups) {
    const MaskCells cells(shown.mask, group.rule, std::min(kMostColumns, room));
    text += "\n" + heads_text(group) + ": " + group.terms + "\n" + picture(cells, room, style.color);
    for (const std::string& line : figures_text(shown, group)) text += line + "\n";
  }
  const int64_t most = std::min({kMostColumns, room, place.length});
  const std::string cell =
      most == place.length
          ? "one position"
          : fmt::format("{:.4g} positions", static_cast<double>(place.length) / static_cast<double>(most));
  text += fmt::format(
      "\nqueries downwards, keys to the right, {} a cell; {} in full  {} in part  blank: nothing\n", cell,
      cell_text(Seen::all, Seen::all, style.color), cell_text(Seen::some, Seen::some, style.color));
  return text;
}

}  // namespace athanor::apps
