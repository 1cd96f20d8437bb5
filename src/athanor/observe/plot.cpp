#include "athanor/observe/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "athanor/base/human.h"

namespace athanor {
namespace {

constexpr double kWidth = 960, kHeight = 540, kLeft = 64, kRight = 768, kTop = 64, kBottom = 484;
constexpr const char* kInk = "#1f2937";
constexpr const char* kMuted = "#6b7280";
constexpr const char* kGrid = "#e5e7eb";
constexpr const char* kPalette[] = {"#2563eb", "#dc2626", "#059669", "#d97706",
                                    "#7c3aed", "#0891b2", "#db2777", "#65a30d"};

struct Point {
  double step, value;
};

struct Series {
  std::string name;
  const char* color;
  std::vector<Point> train = {}, valid = {};
};

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : printable(text)) {
    if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '&')
      safe += "&amp;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += c;
  }
  return safe;
}

double value_of(const ChannelValues& values, const std::string& name) {
  for (const auto& [channel, value] : values)
    if (channel == name) return value;
  return std::numeric_limits<double>::quiet_NaN();
}

// The whole loss first, then every channel that occurs, in the order of its first occurrence.
std::vector<Series> series_of(const std::vector<StepMetrics>& metrics) {
  std::vector<Series> all = {{"all", kInk}};
  const auto add = [&](const ChannelValues& values) {
    for (const auto& entry : values) {
      const std::string& name = entry.first;
      const bool known =
          std::any_of(all.begin() + 1, all.end(), [&](const Series& s) { return s.name == name; });
      if (!known) all.push_back({name, kPalette[(all.size() - 1) % std::size(kPalette)]});
    }
  };
  for (const auto& m : metrics) {
    add(m.channel_loss);
    add(m.valid_channel_loss);
  }
  for (const auto& m : metrics)
    for (size_t i = 0; i < all.size(); ++i) {
      const auto step = static_cast<double>(m.step);
      all[i].train.push_back({step, i == 0 ? m.loss : value_of(m.channel_loss, all[i].name)});
      if (m.valid_loss)
        all[i].valid.push_back({step, i == 0 ? *m.valid_loss : value_of(m.valid_channel_loss, all[i].name)});
    }
  return all;
}

// Marks at 1, 2 or 5 times a power of ten, about `wanted` of them, around [low, high].
struct Axis {
  double low = 0, high = 1, tick = 1;

  static Axis around(double low, double high, int wanted, double least_tick) {
    if (!(high > low)) high = low + std::max(least_tick, std::abs(low) * 1e-3 + 1e-6);
    const double rough = (high - low) / wanted, power = std::pow(10, std::floor(std::log10(rough)));
    const double ratio = rough / power;
    const double tick = std::max(least_tick, power * (ratio < 1.5   ? 1
                                                      : ratio < 3.5 ? 2
                                                      : ratio < 7.5 ? 5
                                                                    : 10));
    return {std::floor(low / tick) * tick, std::ceil(high / tick) * tick, tick};
  }
  std::vector<double> ticks() const {
    std::vector<double> all;
    const auto count = static_cast<int>(std::lround((high - low) / tick));
    for (int i = 0; i <= count; ++i) all.push_back(low + i * tick);
    return all;
  }
};

struct Frame {
  Axis steps, loss;
  double x(double step) const {
    return kLeft + (step - steps.low) / (steps.high - steps.low) * (kRight - kLeft);
  }
  double y(double value) const {
    return kBottom - (value - loss.low) / (loss.high - loss.low) * (kBottom - kTop);
  }
};

Frame frame_of(const std::vector<Series>& series) {
  // Beyond this a loss is a run gone wrong; drawing it to scale would flatten all the rest.
  constexpr double kAbsurd = 1e6;
  double low = std::numeric_limits<double>::infinity(), high = -low, last = 1;
  for (const auto& s : series)
    for (const auto* points : {&s.train, &s.valid})
      for (const auto& [step, value] : *points) {
        last = std::max(last, step);
        if (!std::isfinite(value) || std::abs(value) > kAbsurd) continue;
        low = std::min(low, value);
        high = std::max(high, value);
      }
  if (low > high) low = 0, high = 1;
  Frame frame{Axis::around(0, last, 8, 1), Axis::around(low, high, 7, 0)};
  frame.steps.high = last;  // the curve ends at the edge; marks beyond it are not drawn
  return frame;
}

// The mean of the finite values of each pixel column; a column without any breaks the line.
std::string path_of(const std::vector<Point>& points, const Frame& frame) {
  std::string path;
  bool pen_down = false;
  for (size_t i = 0; i < points.size();) {
    const double column = std::floor(frame.x(points[i].step));
    double x = 0, sum = 0;
    int64_t count = 0;
    for (; i < points.size() && std::floor(frame.x(points[i].step)) == column; ++i) {
      if (!std::isfinite(points[i].value)) continue;
      x += frame.x(points[i].step);
      sum += points[i].value;
      ++count;
    }
    if (count > 0) {
      const auto n = static_cast<double>(count);
      const double y = std::clamp(frame.y(sum / n), kTop - 4, kBottom + 4);
      path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", x / n, y);
    }
    pen_down = count > 0;
  }
  return path;
}

std::string text_at(double x, double y, const char* anchor, const char* color, int size,
                    const std::string& text) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\" font-size=\"{}\">{}</text>\n", x, y,
      anchor, color, size, escaped(text));
}

std::string line_at(double x1, double y1, double x2, double y2, const char* color) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1,
                     y1, x2, y2, color);
}

std::string axes(const Frame& frame) {
  std::string svg;
  for (const double loss : frame.loss.ticks()) {
    const double y = frame.y(loss);
    const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(frame.loss.tick) - 1e-9)), 0, 9);
    svg += line_at(kLeft, y, kRight, y, kGrid);
    svg += text_at(kLeft - 10, y + 4, "end", kMuted, 12, fmt::format("{:.{}f}", loss, decimals));
  }
  const auto marks = static_cast<int>(frame.steps.high / frame.steps.tick + 1e-9);
  for (int mark = 0; mark <= marks; ++mark) {
    const double step = mark * frame.steps.tick;
    svg += line_at(frame.x(step), kBottom, frame.x(step), kBottom + 5, kMuted);
    svg += text_at(frame.x(step), kBottom + 20, "middle", kMuted, 12, with_commas(std::llround(step)));
  }
  svg += line_at(kLeft, kBottom, kRight, kBottom, kMuted);
  svg += text_at((kLeft + kRight) / 2, kBottom + 42, "middle", kMuted, 13, "step");
  return svg + text_at(kLeft - 10, kTop - 14, "end", kMuted, 13, "loss");
}

std::string curves(const std::vector<Series>& series, const Frame& frame) {
  std::string svg;
  // Channels under the whole loss, dots above all lines.
  for (size_t i = series.size(); i-- > 0;)
    svg += fmt::format("<path d=\"{}\" stroke=\"{}\" stroke-width=\"{}\" stroke-opacity=\"{}\"/>\n",
                       path_of(series[i].train, frame), series[i].color, i == 0 ? 1.6 : 1.2,
                       i == 0 ? 0.85 : 0.35);
  const bool has_channels = series.size() > 1;
  for (size_t i = has_channels ? 1 : 0; i < series.size(); ++i) {
    const Series& s = series[i];
    svg +=
        fmt::format("<path d=\"{}\" stroke=\"{}\" stroke-width=\"2\"/>\n", path_of(s.valid, frame), s.color);
    constexpr size_t kMostDots = 60;
    if (s.valid.size() > kMostDots) continue;
    for (const auto& [step, value] : s.valid)
      if (std::isfinite(value))
        svg += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\" stroke=\"#fff\"><title>{}: held-out "
            "loss {:.4f} at "
            "step {}</title></circle>\n",
            frame.x(step), std::clamp(frame.y(value), kTop - 4, kBottom + 4), s.color, escaped(s.name), value,
            step);
  }
  return svg;
}

double last_finite(const std::vector<Point>& points) {
  for (size_t i = points.size(); i-- > 0;)
    if (std::isfinite(points[i].value)) return points[i].value;
  return std::numeric_limits<double>::quiet_NaN();
}

std::string legend(const std::vector<Series>& series) {
  constexpr double kX = kRight + 24, kTrain = kX + 112, kValid = kX + 164, kRow = 22;
  std::string svg = text_at(kTrain, kTop + 4, "end", kMuted, 11, "train") +
                    text_at(kValid, kTop + 4, "end", kMuted, 11, "held out");
  const auto number = [](double value) {
    return std::isfinite(value) ? fmt::format("{:.3f}", value) : std::string("–");
  };
  constexpr size_t kMostRows = 18;
  for (size_t i = 0; i < std::min(series.size(), kMostRows); ++i) {
    const double y = kTop + kRow * static_cast<double>(i + 1) + 4;
    const std::string_view name = series[i].name;
    const std::string_view fits = fit_columns(name, 9);
    const std::string label = std::string(fits) + (fits.size() < name.size() ? "…" : "");
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" rx=\"2\" fill=\"{}\"/>\n",
                       kX, y - 9, series[i].color);
    svg += text_at(kX + 16, y, "start", kInk, 12, label);
    svg += text_at(kTrain, y, "end", kMuted, 12, number(last_finite(series[i].train)));
    svg += text_at(kValid, y, "end", kInk, 12, number(last_finite(series[i].valid)));
  }
  return svg;
}

}  // namespace

std::string loss_svg(const std::vector<StepMetrics>& metrics, const std::string& title) {
  const std::vector<Series> series = series_of(metrics);
  const Frame frame = frame_of(series);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\" "
      "font-family=\"system-ui, 'DejaVu Sans', sans-serif\" fill=\"none\" stroke-linejoin=\"round\">\n"
      "<title>loss of {}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      kWidth, kHeight, kWidth, kHeight, escaped(title));
  svg += text_at(kLeft, 30, "start", kInk, 17, title);
  if (metrics.empty()) {
    svg += text_at(kWidth / 2, kHeight / 2, "middle", kMuted, 15, "no steps yet");
  } else {
    svg += axes(frame) + curves(series, frame) + legend(series);
  }
  return svg + "</svg>\n";
}

}  // namespace athanor
