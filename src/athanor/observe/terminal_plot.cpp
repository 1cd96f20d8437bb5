#include "athanor/observe/terminal_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "athanor/base/columns.h"
#include "athanor/base/human.h"

namespace athanor::observe {
namespace {

constexpr std::array kRunColors = {"36", "33", "35", "32", "34", "31"};
constexpr std::array kRunMarks = {"●", "■", "▲", "◆", "▼", "★"};
constexpr std::array kAsciiLines = {".", "-", "~", "=", ":", "'"};
constexpr std::array kAsciiMarks = {"o", "x", "#", "%", "@", "&"};

struct Cell {
  uint8_t dots = 0;  // Braille
  const char* mark = nullptr;
  size_t run = 0;
  bool is_rule = false;  // a phase begins
};

struct Bounds {
  double x_low, x_high, low, high;
};

double scaled(double value, bool log_scale) {
  return log_scale ? std::log(value) : value;
}

bool is_drawn(const CurvePoint& point, bool log_scale) {
  constexpr double kAbsurd = 1e6;  // a run gone wrong; to scale it would flatten all the rest
  return std::isfinite(point.x) && std::isfinite(point.value) && std::abs(point.value) <= kAbsurd &&
         (!log_scale || point.value > 0);
}

std::optional<Bounds> bounds_of(const std::vector<LossCurve>& curves, bool log_scale) {
  const double infinity = std::numeric_limits<double>::infinity();
  Bounds b{infinity, -infinity, infinity, -infinity};
  size_t count = 0;
  for (const LossCurve& curve : curves)
    for (const CurvePoint& point : curve.points) {
      if (!is_drawn(point, log_scale)) continue;
      ++count;
      b.x_low = std::min(b.x_low, point.x);
      b.x_high = std::max(b.x_high, point.x);
      b.low = std::min(b.low, scaled(point.value, log_scale));
      b.high = std::max(b.high, scaled(point.value, log_scale));
    }
  if (count < 2 || !(b.x_high > b.x_low)) return std::nullopt;
  if (!(b.high > b.low)) b.low -= 0.5, b.high += 0.5;
  return b;
}

// Two dots across and four down in every cell.
class Canvas {
 public:
  Canvas(size_t columns, size_t rows, const Bounds& bounds, const TerminalPlotOptions& options)
      : columns_(columns), rows_(rows), bounds_(bounds), options_(options), cells_(columns * rows) {}

  // The mean of every column of dots, joined to the one before it; a column without any breaks the line only where the
  // points beside it are not finite.
  void draw_line(const LossCurve& curve, size_t run) {
    const auto wide = static_cast<double>(2 * columns_ - 1);
    std::optional<std::pair<size_t, double>> before;
    for (size_t i = 0; i < curve.points.size();) {
      const size_t column = dot_column(curve.points[i].x, wide);
      double sum = 0;
      int64_t count = 0;
      bool broken = false;
      for (; i < curve.points.size() && dot_column(curve.points[i].x, wide) == column; ++i) {
        if (is_drawn(curve.points[i], options_.log_scale)) {
          sum += scaled(curve.points[i].value, options_.log_scale);
          ++count;
        } else {
          broken = true;
        }
      }
      if (count == 0) {
        if (broken) before.reset();
        continue;
      }
      const double y = dot_row(sum / static_cast<double>(count));
      if (!before) before.emplace(column, y);
      join(before->first, before->second, column, y, run);
      before.emplace(column, y);
    }
  }

  void draw_marks(const LossCurve& curve, size_t run, const char* mark) {
    for (const CurvePoint& point : curve.points) {
      if (!is_drawn(point, options_.log_scale)) continue;
      const auto wide = static_cast<double>(2 * columns_ - 1);
      const auto row = static_cast<size_t>(std::lround(dot_row(scaled(point.value, options_.log_scale))));
      Cell& cell = at(dot_column(point.x, wide) / 2, row / 4);
      cell.mark = mark;
      cell.run = run;
    }
  }

  size_t column_of(double x) const { return dot_column(x, static_cast<double>(2 * columns_ - 1)) / 2; }

  // Behind the curves.
  void draw_rule(size_t column) {
    for (size_t y = 0; y < rows_; ++y) at(column, y).is_rule = true;
  }

  std::string row(size_t y, bool lines_are_ascii) const {
    std::string text;
    for (size_t x = 0; x < columns_; ++x) {
      const Cell& cell = cells_[y * columns_ + x];
      if (cell.mark == nullptr && cell.dots == 0) {
        text += cell.is_rule ? options_.style.painted(kDim, options_.style.utf8 ? "┊" : "|") : " ";
        continue;
      }
      const std::string shown = cell.mark != nullptr ? cell.mark
                                : lines_are_ascii    ? kAsciiLines[cell.run % kAsciiLines.size()]
                                                     : braille(cell.dots);
      text += options_.style.painted(kRunColors[cell.run % kRunColors.size()], shown);
    }
    return text;
  }

 private:
  static std::string braille(uint8_t dots) {  // U+2800 and the dots, as UTF-8
    return {static_cast<char>(0xe2), static_cast<char>(0xa0 | dots >> 6),
            static_cast<char>(0x80 | (dots & 0x3f))};
  }

  Cell& at(size_t x, size_t y) {
    return cells_[std::min(y, rows_ - 1) * columns_ + std::min(x, columns_ - 1)];
  }
  size_t dot_column(double x, double wide) const {
    const double share = (x - bounds_.x_low) / (bounds_.x_high - bounds_.x_low);
    return static_cast<size_t>(std::lround(std::clamp(share, 0.0, 1.0) * wide));
  }
  double dot_row(double value) const {
    const double share = (bounds_.high - value) / (bounds_.high - bounds_.low);
    return std::clamp(share, 0.0, 1.0) * static_cast<double>(4 * rows_ - 1);
  }
  void dot(size_t x, size_t y, size_t run) {
    constexpr std::array<std::array<uint8_t, 2>, 4> kDots = {
        {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    Cell& cell = at(x / 2, y / 4);
    cell.dots = static_cast<uint8_t>(cell.dots | kDots[y % 4][x % 2]);
    cell.run = run;
  }
  void join(size_t x0, double y0, size_t x1, double y1, size_t run) {
    const double across = static_cast<double>(x1 - x0), down = y1 - y0;
    const auto steps = static_cast<size_t>(std::ceil(std::max({across, std::abs(down), 1.0})));
    for (size_t i = 0; i <= steps; ++i) {
      const double share = static_cast<double>(i) / static_cast<double>(steps);
      dot(static_cast<size_t>(std::lround(static_cast<double>(x0) + share * across)),
          static_cast<size_t>(std::lround(y0 + share * down)), run);
    }
  }

  size_t columns_, rows_;
  Bounds bounds_;
  const TerminalPlotOptions& options_;
  std::vector<Cell> cells_;
};

// As many decimals as tell the marks of an axis apart.
std::string axis_number(double value, double span) {
  const int decimals = std::clamp(2 - static_cast<int>(std::floor(std::log10(span))), 0, 6);
  return fmt::format("{:.{}f}", value, std::min(decimals, span >= 1 ? 2 : 6));
}

std::string x_number(double value, double span) {
  if (span >= 1e6) return human_count(value);
  if (span >= 10) return with_commas(std::llround(value));
  return span >= 1 ? fmt::format("{:.2f}", value) : fmt::format("{:.3g}", value);
}

std::string right_of(const std::string& text, size_t columns) {
  const size_t used = display_width(text);
  return std::string(columns > used ? columns - used : 0, ' ') + text;
}

// "0          step          400"
std::string x_axis(const Bounds& b, const std::string& name, size_t columns) {
  const double span = b.x_high - b.x_low;
  const std::string first = x_number(b.x_low, span);
  std::string last = x_number(b.x_high, span);
  const size_t used = first.size() + last.size();
  if (used + 1 > columns) return last;
  const size_t free = columns - used;
  if (free < name.size() + 2) return first + std::string(free, ' ') + last;
  const size_t before = (free - name.size()) / 2;
  return first + std::string(before, ' ') + name + std::string(free - name.size() - before, ' ') + last;
}

double last_value(const LossCurve& curve) {
  for (size_t i = curve.points.size(); i-- > 0;)
    if (std::isfinite(curve.points[i].value)) return curve.points[i].value;
  return std::numeric_limits<double>::quiet_NaN();
}

std::string valid_text(const LossCurve& curve) {
  const auto best = std::min_element(curve.points.begin(), curve.points.end(),
                                     [](const auto& a, const auto& b) { return a.value < b.value; });
  std::string text = fmt::format("valid {:.4f}", last_value(curve));
  if (best->value < last_value(curve))
    text += fmt::format(" (best {:.4f} at {})", best->value,
                        best->x >= 10 ? x_number(best->x, best->x) : fmt::format("{:.3g}", best->x));
  return text;
}

// The names of the phases above the columns at which they begin.
std::string names_of(const std::vector<PhaseMark>& phases, const Canvas& canvas, const TerminalStyle& style,
                     size_t columns) {
  std::vector<std::pair<size_t, std::string>> names;
  for (const PhaseMark& mark : phases) names.emplace_back(canvas.column_of(mark.x), style.shown(mark.name));
  const std::vector<std::string> fitting = names_that_fit(names, columns, style.utf8 ? "…" : "~");
  std::string row;
  for (size_t i = 0; i < names.size(); ++i)
    if (!fitting[i].empty()) row = pad_columns(row, names[i].first) + fitting[i];
  return row;
}

struct RunMarks {
  std::string line, dot;
};

// A line for every run: "⠤ first  train 1.9821   ● valid 1.9734".
std::vector<std::string> legend_of(const std::vector<LossCurve>& curves, const std::vector<std::string>& runs,
                                   const std::vector<RunMarks>& marks, const TerminalStyle& style,
                                   size_t columns) {
  constexpr size_t kWithoutName = 50;
  size_t name_columns = 0;
  for (const std::string& run : runs) name_columns = std::max(name_columns, display_width(style.shown(run)));
  name_columns = std::min(name_columns, columns > kWithoutName + 8 ? columns - kWithoutName : size_t{8});
  std::vector<std::string> lines;
  for (size_t run = 0; run < runs.size(); ++run) {
    const std::string name = style.shown(runs[run]);
    std::string text;
    const auto add = [&](const std::string& mark, const std::string& what) {
      if (text.empty() && !name.empty())
        text = style.painted(kRunColors[run % kRunColors.size()], mark) + " " +
               pad_columns(fit_columns(name, name_columns), name_columns) + "  " + what;
      else
        text += (text.empty() ? "" : "   ") + style.painted(kRunColors[run % kRunColors.size()], mark) + " " +
                what;
    };
    for (const LossCurve& curve : curves)
      if (curve.run == runs[run] && !curve.is_valid)
        add(marks[run].line, fmt::format("train {:.4f}", last_value(curve)));
    for (const LossCurve& curve : curves)
      if (curve.run == runs[run] && curve.is_valid) add(marks[run].dot, valid_text(curve));
    lines.push_back(text);
  }
  return lines;
}

}  // namespace

std::vector<std::string> terminal_plot(const std::vector<LossCurve>& curves,
                                       const TerminalPlotOptions& options) {
  const auto bounds = bounds_of(curves, options.log_scale);
  if (!bounds || options.rows == 0) return {};
  std::vector<std::string> runs;
  for (const LossCurve& curve : curves)
    if (std::find(runs.begin(), runs.end(), curve.run) == runs.end()) runs.push_back(curve.run);
  // Braille lines of several runs look alike without colours.
  const TerminalStyle& style = options.style;
  const bool lines_are_ascii = !style.utf8 || (!style.color && runs.size() > 1);
  const auto value_at = [&](size_t row) {
    const double share =
        static_cast<double>(row) / static_cast<double>(std::max<size_t>(1, options.rows - 1));
    const double value = bounds->high - share * (bounds->high - bounds->low);
    return options.log_scale ? std::exp(value) : value;
  };
  const double span = std::abs(value_at(0) - value_at(options.rows - 1));
  std::vector<std::string> labels(options.rows);
  size_t margin = 0;
  for (size_t row = 0; row < options.rows; row += 3) {
    labels[row] = axis_number(value_at(row), std::max(span, 1e-6));
    margin = std::max(margin, labels[row].size());
  }
  const size_t columns = options.columns > margin + 5 ? options.columns - margin - 5 : 1;
  Canvas canvas(columns, options.rows, *bounds, options);
  const auto mark_of = [&](size_t run) {
    return style.utf8 ? kRunMarks[run % kRunMarks.size()] : kAsciiMarks[run % kAsciiMarks.size()];
  };
  const auto run_of = [&](const LossCurve& curve) {
    return static_cast<size_t>(std::find(runs.begin(), runs.end(), curve.run) - runs.begin());
  };
  std::vector<bool> begins(columns);
  for (const PhaseMark& mark : options.phases) {
    if (mark.is_first) continue;
    begins[canvas.column_of(mark.x)] = true;
    canvas.draw_rule(canvas.column_of(mark.x));
  }
  for (const LossCurve& curve : curves)
    if (!curve.is_valid) canvas.draw_line(curve, run_of(curve));
  for (const LossCurve& curve : curves)
    if (curve.is_valid) canvas.draw_marks(curve, run_of(curve), mark_of(run_of(curve)));

  const bool utf8 = style.utf8;
  std::vector<std::string> lines;
  const std::string head = " " + right_of("loss", std::max<size_t>(4, margin)),
                    names = names_of(options.phases, canvas, style, columns);
  lines.push_back(style.painted(kDim, names.empty() ? head : pad_columns(head, margin + 3) + names));
  for (size_t row = 0; row < options.rows; ++row) {
    const char* const border = labels[row].empty() ? (utf8 ? "│" : "|") : (utf8 ? "┤" : "+");
    lines.push_back(" " + style.painted(kDim, right_of(labels[row], margin) + " " + border) +
                    canvas.row(row, lines_are_ascii));
  }
  const std::string indent(margin + 2, ' ');
  std::string axis = utf8 ? "└" : "+";
  for (const bool begins_here : begins) axis += begins_here ? (utf8 ? "┴" : "+") : (utf8 ? "─" : "-");
  lines.push_back(indent + style.painted(kDim, axis));
  lines.push_back(indent + " " + style.painted(kDim, x_axis(*bounds, options.x_name, columns)));
  std::vector<RunMarks> marks;
  for (size_t run = 0; run < runs.size(); ++run)
    marks.push_back({lines_are_ascii ? kAsciiLines[run % kAsciiLines.size()] : "⠤", mark_of(run)});
  for (const std::string& text : legend_of(curves, runs, marks, style, columns))
    lines.push_back(fmt::format("{} {}", indent, text));
  return lines;
}

}  // namespace athanor::observe
