#include <fmt/core.h>

#include <algorithm>

#include "apps/athanor/tokenizer/comparison.h"
#include "athanor/base/human.h"
#include "athanor/observe/html/text.h"

namespace athanor::apps {
namespace {

constexpr double kWidth = 960, kLeft = 190, kRight = 880, kBar = 14, kGroupGap = 14, kLegendRow = 22;
constexpr int kNumColors = 8;
// Ink and grid by the reader's system; the bars' colours are legible on both grounds.
constexpr const char* kStyle =
    "<style>text{font-family:system-ui,sans-serif}.ground{fill:#ffffff}.ink{fill:#1f2937}.muted{fill:#6b7280}"
    ".c0{fill:#3b82f6}.c1{fill:#ef4444}.c2{fill:#10b981}.c3{fill:#f59e0b}.c4{fill:#8b5cf6}.c5{fill:#06b6d4}"
    ".c6{fill:#ec4899}.c7{fill:#84cc16}"
    "@media(prefers-color-scheme:dark){.ground{fill:#0f172a}.ink{fill:#e5e7eb}.muted{fill:#9ca3af}}</"
    "style>";

std::string label(double x, double y, int size, const char* shade, const char* anchor,
                  const std::string& text) {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" font-size="{}" class="{}" text-anchor="{}">{}</text>)", x,
                     y, size, shade, anchor, observe::html::escaped(text));
}

std::string shortened(const std::string& name, size_t columns) {
  const std::string_view kept = fit_columns(name, columns);
  return kept.size() == name.size() ? name : std::string(kept) + "…";
}

struct Drawing {
  std::string text = {};
  double y = 0;
};

void draw_legend(Drawing& drawing, const std::vector<ComparedTokenizer>& rows) {
  double x = 24;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string name = shortened(rows[i].name, 40);
    const double width = 40 + 8 * static_cast<double>(display_width(name));
    if (x > 24 && x + width > kWidth) {
      x = 24;
      drawing.y += kLegendRow;
    }
    drawing.text += fmt::format(R"(<rect x="{}" y="{}" width="12" height="12" rx="2" class="c{}"/>)", x,
                                drawing.y - 10, i % kNumColors);
    drawing.text += label(x + 17, drawing.y, 13, "ink", "start", name);
    x += width;
  }
  drawing.y += kLegendRow;
}

void draw_bars(Drawing& drawing, const std::vector<ComparedTokenizer>& rows, const std::string& title,
               std::optional<double> (TokenCounts::*measure)() const) {
  drawing.y += 20;
  drawing.text += label(24, drawing.y, 15, "ink", "start", title);
  drawing.y += 16;
  double most = 0;
  for (const ComparedTokenizer& row : rows)
    for (const auto& [channel, counts] : row.usage.channels())
      most = std::max(most, (counts.*measure)().value_or(0));
  const auto& channels = rows[0].usage.channels();
  for (size_t c = 0; c < channels.size(); ++c) {
    const double height = kBar * static_cast<double>(rows.size());
    drawing.text +=
        label(kLeft - 10, drawing.y + height / 2 + 4, 13, "ink", "end", shortened(channels[c].first, 22));
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::optional<double> value = (rows[i].usage.channels()[c].second.*measure)();
      const double width = value && most > 0 ? *value / most * (kRight - kLeft) : 0;
      drawing.text +=
          fmt::format(R"(<rect x="{}" y="{:.1f}" width="{:.1f}" height="{}" rx="2" class="c{}"/>)", kLeft,
                      drawing.y + 1, width, kBar - 2, i % kNumColors);
      drawing.text += label(kLeft + width + 6, drawing.y + kBar - 3, 11, "muted", "start",
                            value ? fmt::format("{:.2f}", *value) : "-");
      drawing.y += kBar;
    }
    drawing.y += kGroupGap;
  }
}

}  // namespace

std::string comparison_svg(const std::vector<ComparedTokenizer>& rows) {
  Drawing drawing{.y = 30};
  draw_legend(drawing, rows);
  draw_bars(drawing, rows, "bytes per token (more: shorter sequences)", &TokenCounts::bytes_per_token);
  draw_bars(drawing, rows, "tokens per word (less: fewer cuts)", &TokenCounts::fertility);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" "
      "height=\"{1:.0f}\">{2}<rect width=\"{0}\" height=\"{1:.0f}\" class=\"ground\"/>{3}</svg>\n",
      kWidth, drawing.y + 10, kStyle, drawing.text);
}

}  // namespace athanor::apps
