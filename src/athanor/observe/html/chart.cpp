#include "athanor/observe/html/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "athanor/base/human.h"
#include "athanor/observe/html/text.h"
#include "athanor/observe/phase_marks.h"

namespace athanor::observe::html {
namespace {

constexpr double kWidth = 1000, kHeight = 300, kAbsurd = 1e9;
constexpr size_t kMany = 600;  // points: a thinner line

struct Scale {
  double low = 0, high = 1;
  bool is_log = false;
  std::vector<double> ticks = {};

  double share(double value) const {
    const double at = is_log ? std::log10(value) : value;
    return std::clamp((at - low) / (high - low), 0.0, 1.0);
  }
  bool shows(double value) const { return std::isfinite(value) && (!is_log || value > 0); }
};

double tick_of(double range, int wanted) {
  const double rough = range / wanted, power = std::pow(10, std::floor(std::log10(rough)));
  const double ratio = rough / power;
  return power * (ratio < 1.5 ? 1 : ratio < 3.5 ? 2 : ratio < 7.5 ? 5 : 10);
}

Scale linear(double low, double high, int wanted, double least_tick, bool is_rounded) {
  if (!(high > low)) high = low + std::max({least_tick, std::abs(low) * 1e-3, 1e-9});
  Scale scale{.low = low, .high = high};
  const double tick = std::max(least_tick, tick_of(high - low, wanted));
  if (is_rounded) {
    scale.low = std::floor(low / tick) * tick;
    scale.high = std::ceil(high / tick) * tick;
  }
  const auto first = std::llround(std::ceil(scale.low / tick - 1e-9));
  for (int i = 0; i < 20 && static_cast<double>(first + i) * tick <= scale.high + tick * 1e-6; ++i)
    scale.ticks.push_back(static_cast<double>(first + i) * tick);
  return scale;
}

Scale scale_of_values(const Chart& chart) {
  std::vector<double> values;
  for (const ChartLine& line : chart.lines)
    for (const CurvePoint& point : line.points)
      if (std::isfinite(point.value) && std::abs(point.value) < kAbsurd) values.push_back(point.value);
  if (values.empty()) values = {0, 1};
  std::sort(values.begin(), values.end());
  const double low = values.front(), high = values.back(), middle = values[values.size() / 2];
  constexpr double kFarAbove = 30;
  // Lines of different size on one chart, as parts of a whole, stay linear.
  if (chart.lines.size() == 1 && low > 0 && high > kFarAbove * middle) {
    Scale scale{.low = std::floor(std::log10(low)), .high = std::ceil(std::log10(high)), .is_log = true};
    if (scale.high <= scale.low) scale.high = scale.low + 1;
    const double step = std::ceil((scale.high - scale.low) / 6);
    for (double power = scale.low; power <= scale.high; power += step)
      scale.ticks.push_back(std::pow(10, power));
    return scale;
  }
  return linear(chart.from_zero ? std::min(0.0, low) : low, high, 4, 0, true);
}

Scale scale_of_steps(const Chart& chart) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const ChartLine& line : chart.lines)
    for (const CurvePoint& point : line.points) low = std::min(low, point.x), high = std::max(high, point.x);
  if (!(low <= high)) low = 0, high = 1;
  return linear(low, high, 4, 1, false);
}

struct Frame {
  Scale across, up;
  double x(double at) const { return across.share(at) * kWidth; }
  double y(double value) const { return kHeight - up.share(value) * kHeight; }
};

std::string line_svg(const ChartLine& line, const Frame& frame) {
  std::string path, dots;
  bool is_drawing = false, has_drawn = false;
  for (size_t i = 0; i < line.points.size(); ++i) {
    const auto& [x, value] = line.points[i];
    if (!frame.up.shows(value)) {
      is_drawing = false;
      continue;
    }
    const std::string at = fmt::format("{:.1f} {:.1f}", frame.x(x), frame.y(value));
    path += (is_drawing ? "L" : "M") + at;
    // A point between two gaps would be invisible as a line.
    const bool is_alone =
        !is_drawing && (i + 1 == line.points.size() || !frame.up.shows(line.points[i + 1].value));
    if (line.is_dots || is_alone) dots += fmt::format("M{}h.01", at);
    is_drawing = has_drawn = true;
  }
  if (!has_drawn) return "";
  std::string svg = fmt::format("<path class=\"l c{}{}\" d=\"{}\"/>", line.color,
                                line.is_faint                ? " faint"
                                : line.points.size() > kMany ? " fine"
                                                             : "",
                                path);
  constexpr size_t kMostDots = 80;
  if (!dots.empty() && (!line.is_dots || line.points.size() <= kMostDots))
    svg += fmt::format("<path class=\"d c{}\" d=\"{}\"/>", line.color, dots);
  return svg;
}

double last_finite(const ChartLine& line) {
  for (size_t i = line.points.size(); i-- > 0;)
    if (std::isfinite(line.points[i].value)) return line.points[i].value;
  return std::numeric_limits<double>::quiet_NaN();
}

std::string legend(const Chart& chart) {
  std::string text = "<ul class=\"legend\">";
  for (const ChartLine& line : chart.lines)
    text +=
        fmt::format("<li><i class=\"b{}{}{}\"></i>{} <b>{}</b></li>", line.color, line.is_dots ? " dot" : "",
                    line.is_faint ? " faint" : "", escaped(line.name), short_number(last_finite(line)));
  return text + "</ul>";
}

std::string phase_names(const Chart& chart, const Frame& frame) {
  constexpr double kColumns = 44;  // of a narrow screen
  std::vector<std::pair<size_t, std::string>> names;
  for (const ChartMark& mark : chart.marks)
    if (!mark.is_failure)
      names.emplace_back(static_cast<size_t>(frame.across.share(mark.x) * kColumns), printable(mark.name));
  const std::vector<std::string> fitting = names_that_fit(names, static_cast<size_t>(kColumns));
  std::string text;
  size_t i = 0;
  for (const ChartMark& mark : chart.marks) {
    if (mark.is_failure) continue;
    const std::string& name = fitting[i++];
    if (!name.empty())
      text += fmt::format("<span class=\"phase\" style=\"left:{:.2f}%\">{}</span>",
                          100 * frame.across.share(mark.x), escaped(name));
  }
  return text;
}

}  // namespace

std::string chart(const Chart& chart) {
  std::string text = "<figure><figcaption>" + escaped(chart.title) + "</figcaption>" + legend(chart);
  const bool is_empty = std::all_of(chart.lines.begin(), chart.lines.end(),
                                    [](const ChartLine& line) { return !std::isfinite(last_finite(line)); });
  if (is_empty) return text + "<p class=\"none\">nothing to draw yet</p></figure>\n";
  const Frame frame{scale_of_steps(chart), scale_of_values(chart)};
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" "
      "role=\"img\">"
      "<title>{}</title>",
      kWidth, kHeight, escaped(chart.title));
  std::string labels;
  for (const double tick : frame.up.ticks) {
    svg += fmt::format("<path class=\"grid\" d=\"M0 {0:.1f}H{1}\"/>", frame.y(tick), kWidth);
    labels += fmt::format("<span class=\"y\" style=\"top:{:.2f}%\">{}</span>",
                          100 * (1 - frame.up.share(tick)), short_number(tick));
  }
  for (const double tick : frame.across.ticks)
    labels += fmt::format("<span class=\"x\" style=\"left:{:.2f}%\">{}</span>",
                          100 * frame.across.share(tick), short_number(tick));
  for (const ChartMark& mark : chart.marks)
    svg += fmt::format("<path class=\"{}\" d=\"M{:.1f} 0V{}\"><title>{}</title></path>",
                       mark.is_failure ? "fail" : "mark", frame.x(mark.x), kHeight, escaped(mark.name));
  for (size_t i = chart.lines.size(); i-- > 0;) svg += line_svg(chart.lines[i], frame);
  return text + "<div class=\"plot\">" + svg + "</svg>" + labels + phase_names(chart, frame) +
         fmt::format("</div><p class=\"axis\">step{}</p></figure>\n",
                     frame.up.is_log ? ", logarithmic scale" : "");
}

}  // namespace athanor::observe::html
