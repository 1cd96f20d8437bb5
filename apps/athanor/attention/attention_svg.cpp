#include <fmt/core.h>

#include <algorithm>

#include "apps/athanor/attention/mask_cells.h"
#include "apps/athanor/attention/shown_attention.h"
#include "athanor/base/columns.h"
#include "athanor/base/human.h"
#include "athanor/observe/html/text.h"

namespace athanor::apps {
namespace {

constexpr double kWidth = 1000, kMargin = 48, kGap = 40, kHeader = 118, kAxis = 22, kLine = 18;
constexpr int64_t kMostCells = 128;
constexpr int kShades = 5;  // four quarters of what is seen in part, and all
// Ground, ink and shades by the reader's system: the more of a cell is seen, the farther from the ground.
constexpr const char* kStyle =
    "<style>text{font-family:system-ui,'DejaVu Sans',sans-serif;fill:#111827}.muted{fill:#6b7280}"
    ".terms{font-family:ui-monospace,'DejaVu Sans Mono',monospace}.ground{fill:#ffffff}.empty{fill:#f1f4f9}"
    ".s0{fill:#cfe0fc}.s1{fill:#a5c5fa}.s2{fill:#7fa9f5}.s3{fill:#5c8df0}.s4{fill:#1d4ed8}"
    ".line{stroke:#111827;stroke-opacity:.05}.edge{fill:none;stroke:#cbd5e1}"
    "@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.muted{fill:#9ca3af}.ground{fill:#0f172a}"
    ".empty{fill:#1a2439}.s0{fill:#213763}.s1{fill:#294b8c}.s2{fill:#3462b8}.s3{fill:#477ddb}.s4{fill:#"
    "86b6ff}"
    ".line{stroke:#e5e7eb;stroke-opacity:.06}.edge{stroke:#334155}}</style>";

std::string words(double x, double y, int size, const char* style, const char* anchor,
                  const std::string& text, bool bold = false) {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" font-size="{}" class="{}" text-anchor="{}"{}>{}</text>)",
                     x, y, size, style, anchor, bold ? R"( font-weight="600")" : "",
                     observe::html::escaped(text));
}

// Below 0: nothing.
int shade_of(const MaskCells& cells, int64_t row, int64_t column) {
  const Seen seen = cells.seen(row, column);
  if (seen != Seen::some) return seen == Seen::all ? kShades - 1 : -1;
  return std::min(static_cast<int>(cells.share(row, column) * (kShades - 1)), kShades - 2);
}

// Cells as one path for each shade, whose units are cells: neighbours of a row are one rectangle.
std::string paths(const MaskCells& cells) {
  std::string path[kShades];
  for (int64_t row = 0; row < cells.size(); ++row)
    for (int64_t column = 0; column < cells.size();) {
      const int shade = shade_of(cells, row, column);
      const int64_t first = column;
      while (column < cells.size() && shade_of(cells, row, column) == shade) ++column;
      if (shade >= 0)
        path[shade] += fmt::format("M{} {}h{}v1h-{}z", first, row, column - first, column - first);
    }
  std::string text;
  for (int shade = 0; shade < kShades; ++shade)
    if (!path[shade].empty()) text += fmt::format(R"(<path class="s{}" d="{}"/>)", shade, path[shade]);
  return text;
}

// Where the blocks of 64 begin, as long as they can be told apart.
std::string block_lines(double x, double y, double side, int64_t positions) {
  const int64_t blocks = (positions + AttentionMask::kBlock - 1) / AttentionMask::kBlock;
  std::string text;
  for (int64_t block = 1; block < blocks && blocks <= 64; ++block) {
    const double at =
        side * static_cast<double>(block * AttentionMask::kBlock) / static_cast<double>(positions);
    text += fmt::format("M{:.2f} {:.2f}h{:.2f}M{:.2f} {:.2f}v{:.2f}", x, y + at, side, x + at, y, side);
  }
  return text.empty() ? "" : fmt::format(R"(<path class="line" d="{}"/>)", text);
}

struct Panel {
  double x = 0, y = 0, side = 0;
};

std::string grid(const ShownAttention& shown, const HeadGroup& group, const Panel& panel) {
  const MaskCells cells(shown.mask, group.rule, kMostCells);
  const double scale = panel.side / static_cast<double>(cells.size()), right = panel.x + panel.side;
  const std::string last = with_commas(cells.positions() - 1);
  std::string text = words(panel.x, panel.y - 7, 11, "muted", "start", "0") +
                     words(panel.x + panel.side / 2, panel.y - 7, 11, "muted", "middle", "keys →") +
                     words(right, panel.y - 7, 11, "muted", "end", last);
  text += fmt::format(
      R"svg(<text transform="translate({:.1f},{:.1f}) rotate(-90)" font-size="11" class="muted" text-anchor="middle">← queries</text>)svg",
      panel.x - 8, panel.y + panel.side / 2);
  text += fmt::format(R"(<rect x="{0:.2f}" y="{1:.2f}" width="{2:.2f}" height="{2:.2f}" class="empty"/>)",
                      panel.x, panel.y, panel.side);
  text += fmt::format(
      R"svg(<g shape-rendering="crispEdges" transform="translate({:.2f},{:.2f}) scale({:.6f})">{}</g>)svg",
      panel.x, panel.y, scale, paths(cells));
  text += block_lines(panel.x, panel.y, panel.side, cells.positions());
  return text +
         fmt::format(R"(<rect x="{0:.2f}" y="{1:.2f}" width="{2:.2f}" height="{2:.2f}" class="edge"/>)",
                     panel.x, panel.y, panel.side);
}

struct CaptionLine {
  std::string text;
  int size;
  const char* style;
  bool bold;
};

std::vector<CaptionLine> caption(const ShownAttention& shown, const HeadGroup& group, double side) {
  const auto columns = [&](double width) { return static_cast<size_t>(side / width); };
  std::vector<CaptionLine> lines = {{heads_text(group), 14, "", true}};
  for (const std::string& line : wrap_columns(group.terms, columns(7.3)))
    lines.push_back({line, 12, "terms", false});
  for (const std::string& figure : figures_text(shown, group))
    for (const std::string& line : wrap_columns(figure, columns(6.3)))
      lines.push_back({line, 12, "muted", false});
  return lines;
}

std::string legend(double y) {
  std::string text;
  double x = kMargin;
  const auto entry = [&](const std::vector<std::string>& styles, const std::string& name, double width) {
    for (const std::string& style : styles) {
      text +=
          fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="13" height="13" class="{}"/>)", x, y - 11, style);
      x += 13;
    }
    text += words(x + 7, y, 12, "muted", "start", name);
    x += width;
  };
  entry({"s4"}, "seen in full", 100);
  entry({"s3", "s2", "s1", "s0"}, "in part, stronger where more", 205);
  entry({"empty"}, "not seen", 0);
  return text;
}

}  // namespace

std::string attention_svg(const ShownAttention& shown) {
  const auto groups = static_cast<int64_t>(shown.groups.size());
  const int64_t in_row = std::min<int64_t>(groups, 3);
  const auto columns = static_cast<double>(in_row);
  const double side = in_row == 1 ? 560 : (kWidth - 2 * kMargin - (columns - 1) * kGap) / columns;
  std::string text;
  double y = kHeader;
  for (int64_t first = 0; first < groups; first += in_row) {
    size_t most_lines = 0;
    for (int64_t i = first; i < std::min(first + in_row, groups); ++i) {
      const HeadGroup& group = shown.groups[static_cast<size_t>(i)];
      const Panel panel{kMargin + static_cast<double>(i - first) * (side + kGap), y + kAxis, side};
      text += grid(shown, group, panel);
      const std::vector<CaptionLine> lines = caption(shown, group, side);
      for (size_t line = 0; line < lines.size(); ++line)
        text += words(panel.x, panel.y + side + 26 + kLine * static_cast<double>(line), lines[line].size,
                      lines[line].style, "start", lines[line].text, lines[line].bold);
      most_lines = std::max(most_lines, lines.size());
    }
    y += kAxis + side + 26 + kLine * static_cast<double>(most_lines) + 14;
  }
  const double width = in_row == 1 ? side + 2 * kMargin : kWidth, height = y + 8;
  const std::string title = fmt::format("Attention of layer {}", shown.place.layer);
  const std::string sizes = fmt::format("{} head{}, {} positions; the mask takes {}", shown.place.heads,
                                        shown.place.heads == 1 ? "" : "s", with_commas(shown.place.length),
                                        human_bytes(static_cast<double>(shown.mask.bytes())));
  return fmt::format(
             R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" height="{1:.0f}" role="img"><title>{2}</title>{3}<rect width="{0:.0f}" height="{1:.0f}" class="ground"/>)",
             width, height, observe::html::escaped(title + ": " + shown.pattern), kStyle) +
         words(kMargin, 40, 21, "", "start", title, true) + words(kMargin, 63, 13, "muted", "start", sizes) +
         legend(96) + text + "</svg>\n";
}

}  // namespace athanor::apps
