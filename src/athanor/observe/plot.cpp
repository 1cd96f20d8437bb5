#include "athanor/observe/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "athanor/base/human.h"
#include "athanor/observe/html/text.h"

namespace athanor::observe {
namespace {

constexpr double kWidth = 1040, kHeight = 540, kLeft = 64, kRight = 768, kTop = 64, kBottom = 484;
constexpr const char* kInk = "#1f2937";
constexpr const char* kMuted = "#6b7280";
constexpr const char* kGrid = "#e5e7eb";
constexpr const char* kPalette[] = {"#2563eb", "#dc2626", "#059669", "#d97706",
                                    "#7c3aed", "#0891b2", "#db2777", "#65a30d"};

struct Series {
  std::string name;
  const char* color;
  bool is_main = true;  // drawn strongly
  std::vector<CurvePoint> train = {}, valid = {};
};

double value_of(const ChannelValues& values, const std::string& name) {
  for (const auto& [channel, value] : values)
    if (channel == name) return value;
  return std::numeric_limits<double>::quiet_NaN();
}

// Of one run the whole loss first, then its channels in the order of the config.
std::vector<Series> series_of(const PlotRun& run, PlotX x) {
  std::vector<Series> all = {{"all", kInk}};
  for (const std::string& name : channel_names(run.metrics))
    all.push_back({name, kPalette[(all.size() - 1) % std::size(kPalette)], false});
  double seconds = 0;
  for (const auto& m : run.metrics) {
    if (std::isfinite(m.step_seconds)) seconds += m.step_seconds;
    const double at = plot_x(x, m, seconds);
    for (size_t i = 0; i < all.size(); ++i) {
      if (m.step > 0) all[i].train.push_back({at, i == 0 ? m.loss : value_of(m.channel_loss, all[i].name)});
      if (m.valid_loss)
        all[i].valid.push_back({at, i == 0 ? *m.valid_loss : value_of(m.valid_channel_loss, all[i].name)});
    }
  }
  return all;
}

std::vector<Series> series_of(const std::vector<PlotRun>& runs, PlotX x) {
  if (runs.size() == 1) return series_of(runs[0], x);
  std::vector<Series> all;
  for (const PlotRun& run : runs) {
    Series& series = all.emplace_back(Series{run.name, kPalette[all.size() % std::size(kPalette)]});
    for (LossCurve& curve : loss_curves(run.metrics, run.name, x))
      (curve.is_valid ? series.valid : series.train) = std::move(curve.points);
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

// Losses are those of the axis: logarithms where it is a logarithmic one.
struct Frame {
  Axis across, loss;
  bool log_scale = false;
  double x(double at) const {
    return kLeft + (at - across.low) / (across.high - across.low) * (kRight - kLeft);
  }
  double y(double value) const {
    const double at = log_scale ? std::log10(value) : value;
    return std::clamp(kBottom - (at - loss.low) / (loss.high - loss.low) * (kBottom - kTop), kTop - 4,
                      kBottom + 4);
  }
  bool shows(double value) const { return std::isfinite(value) && (!log_scale || value > 0); }
};

Frame frame_of(const std::vector<Series>& series, const PlotOptions& options) {
  // Beyond this a loss is a run gone wrong; drawing it to scale would flatten all the rest.
  constexpr double kAbsurd = 1e6;
  const bool whole = options.x != PlotX::time;
  double low = std::numeric_limits<double>::infinity(), high = -low, last = whole ? 1 : 1e-4;
  Frame frame{.across = {}, .loss = {}, .log_scale = options.log_scale};
  for (const auto& s : series)
    for (const auto* points : {&s.train, &s.valid})
      for (const auto& [x, value] : *points) {
        last = std::max(last, x);
        if (!frame.shows(value) || std::abs(value) > kAbsurd) continue;
        low = std::min(low, options.log_scale ? std::log10(value) : value);
        high = std::max(high, options.log_scale ? std::log10(value) : value);
      }
  if (low > high) low = 0, high = 1;
  frame.across = Axis::around(0, last, 8, whole ? 1 : 0);
  frame.loss = Axis::around(low, high, 7, 0);
  frame.across.high = last;  // the curve ends at the edge; marks beyond it are not drawn
  return frame;
}

// The mean of the values of each pixel column that can be shown.
std::vector<CurvePoint> by_pixel(const std::vector<CurvePoint>& points, const Frame& frame) {
  std::vector<CurvePoint> means;
  for (size_t i = 0; i < points.size();) {
    const double column = std::floor(frame.x(points[i].x));
    double x = 0, sum = 0;
    int64_t count = 0, first = static_cast<int64_t>(i);
    for (; i < points.size() && std::floor(frame.x(points[i].x)) == column; ++i) {
      if (!frame.shows(points[i].value)) continue;
      x += points[i].x;
      sum += points[i].value;
      ++count;
    }
    const auto n = static_cast<double>(count);
    means.push_back(count > 0 ? CurvePoint{x / n, sum / n}
                              : CurvePoint{points[static_cast<size_t>(first)].x,
                                           std::numeric_limits<double>::quiet_NaN()});
  }
  return means;
}

// What is not finite breaks the line.
std::string path_of(const std::vector<CurvePoint>& points, const Frame& frame) {
  std::string path;
  bool pen_down = false;
  for (const auto& [x, value] : points) {
    if (frame.shows(value))
      path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", frame.x(x), frame.y(value));
    pen_down = frame.shows(value);
  }
  return path;
}

std::string text_at(double x, double y, const char* anchor, const char* color, int size,
                    const std::string& text) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\" font-size=\"{}\">{}</text>\n", x, y,
      anchor, color, size, html::escaped(text));
}

std::string line_at(double x1, double y1, double x2, double y2, const char* color) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1,
                     y1, x2, y2, color);
}

std::string axes(const Frame& frame, const char* x_name) {
  std::string svg;
  for (const double loss : frame.loss.ticks()) {
    const double y = frame.y(frame.log_scale ? std::pow(10, loss) : loss);
    const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(frame.loss.tick) - 1e-9)), 0, 9);
    svg += line_at(kLeft, y, kRight, y, kGrid);
    svg += text_at(
        kLeft - 10, y + 4, "end", kMuted, 12,
        frame.log_scale ? fmt::format("{:.3g}", std::pow(10, loss)) : fmt::format("{:.{}f}", loss, decimals));
  }
  const auto marks = static_cast<int>(frame.across.high / frame.across.tick + 1e-9);
  for (int mark = 0; mark <= marks; ++mark) {
    const double at = mark * frame.across.tick;
    svg += line_at(frame.x(at), kBottom, frame.x(at), kBottom + 5, kMuted);
    svg += text_at(frame.x(at), kBottom + 20, "middle", kMuted, 12,
                   frame.across.tick < 1     ? fmt::format("{:.3g}", at)
                   : frame.across.tick < 1e5 ? with_commas(std::llround(at))
                                             : human_count(at));
  }
  svg += line_at(kLeft, kBottom, kRight, kBottom, kMuted);
  svg += text_at((kLeft + kRight) / 2, kBottom + 42, "middle", kMuted, 13, x_name);
  return svg + text_at(kLeft - 10, kTop - 14, "end", kMuted, 13, "loss");
}

// The number of points on both sides over which a noisy curve is smoothed; 0: the curve is not noisy.
size_t smoothing_of(const std::vector<CurvePoint>& points) {
  constexpr size_t kFew = 50, kShare = 60;
  double moves = 0, jumps = 0;
  for (size_t i = 1; i < points.size(); ++i) {
    const double step = points[i].value - points[i - 1].value;
    if (!std::isfinite(step)) continue;
    moves += step;
    jumps += std::abs(step);
  }
  return points.size() < kFew || jumps < 2 * std::abs(moves) ? 0
                                                             : std::max<size_t>(2, points.size() / kShare);
}

std::string path_element(const std::string& path, const char* color, double width, double opacity) {
  return fmt::format("<path d=\"{}\" stroke=\"{}\" stroke-width=\"{}\" stroke-opacity=\"{}\"/>\n", path,
                     color, width, opacity);
}

std::string curves(const std::vector<Series>& series, const Frame& frame, const char* x_name) {
  std::string svg;
  // Channels under the whole loss, dots above all lines.
  for (size_t i = series.size(); i-- > 0;) {
    const Series& s = series[i];
    const std::vector<CurvePoint> points = by_pixel(s.train, frame);
    const size_t reach = smoothing_of(points);
    if (reach > 0) svg += path_element(path_of(points, frame), s.color, 1, s.is_main ? 0.25 : 0.12);
    svg += path_element(path_of(smoothed(points, reach), frame), s.color, s.is_main ? 1.6 : 1.2,
                        s.is_main ? 0.85 : 0.35);
  }
  const bool has_channels = series.size() > 1 && !series[1].is_main;
  for (size_t i = has_channels ? 1 : 0; i < series.size(); ++i) {
    const Series& s = series[i];
    svg += path_element(path_of(by_pixel(s.valid, frame), frame), s.color, 2, 1);
    constexpr size_t kMostDots = 60;
    if (s.valid.size() > kMostDots) continue;
    for (const auto& [x, value] : s.valid)
      if (frame.shows(value))
        svg += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\" stroke=\"#fff\"><title>{}: validation "
            "loss {:.4f} at {} {:.6g}</title></circle>\n",
            frame.x(x), frame.y(value), s.color, html::escaped(s.name), value, x_name, x);
  }
  return svg;
}

double last_finite(const std::vector<CurvePoint>& points) {
  for (size_t i = points.size(); i-- > 0;)
    if (std::isfinite(points[i].value)) return points[i].value;
  return std::numeric_limits<double>::quiet_NaN();
}

// Names that begin alike often end differently.
std::string middle_cut(const std::string& name, size_t columns) {
  if (display_width(name) <= columns) return name;
  std::string_view end = name;
  while (display_width(end) > columns / 2) end.remove_prefix(first_code_point(end).size_bytes);
  return std::string(fit_columns(name, columns - 1 - display_width(end))) + "…" + std::string(end);
}

std::string legend(const std::vector<Series>& series) {
  constexpr double kX = kRight + 24, kTrain = kX + 174, kValid = kX + 232, kRow = 22;
  std::string svg = text_at(kTrain, kTop + 4, "end", kMuted, 11, "train") +
                    text_at(kValid, kTop + 4, "end", kMuted, 11, "valid");
  const auto number = [](double value) {
    return std::isfinite(value) ? fmt::format("{:.3f}", value) : std::string("–");
  };
  constexpr size_t kMostRows = 18;
  for (size_t i = 0; i < std::min(series.size(), kMostRows); ++i) {
    const double y = kTop + kRow * static_cast<double>(i + 1) + 4;
    const std::string label = middle_cut(printable(series[i].name), 17);
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" rx=\"2\" fill=\"{}\"/>\n",
                       kX, y - 9, series[i].color);
    svg += text_at(kX + 16, y, "start", kInk, 12, label);
    svg += text_at(kTrain, y, "end", kMuted, 12, number(last_finite(series[i].train)));
    svg += text_at(kValid, y, "end", kInk, 12, number(last_finite(series[i].valid)));
  }
  return svg;
}

constexpr double kNameColumn = 6.6;  // width of a character of a phase's name

std::string phases(const std::vector<PlotRun>& runs, PlotX x, const Frame& frame) {
  std::vector<PhaseMark> marks;
  for (const PlotRun& run : runs) add_marks(marks, phase_marks(run.phases, run.metrics, x));
  std::vector<std::pair<size_t, std::string>> names;
  for (const PhaseMark& mark : marks)
    names.emplace_back(static_cast<size_t>((frame.x(mark.x) - kLeft) / kNameColumn), printable(mark.name));
  const std::vector<std::string> fitting =
      names_that_fit(names, static_cast<size_t>((kRight - kLeft) / kNameColumn));
  std::string svg;
  for (size_t i = 0; i < marks.size(); ++i) {
    const double at = frame.x(marks[i].x);
    if (!marks[i].is_first)
      svg += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{}\" x2=\"{:.1f}\" y2=\"{}\" stroke=\"{}\" stroke-opacity=\"0.6\" "
          "stroke-dasharray=\"2 3\"><title>phase {}</title></line>\n",
          at, kTop - 18, at, kBottom, kMuted, html::escaped(marks[i].name));
    if (!fitting[i].empty())
      svg += text_at(at + (marks[i].is_first ? 0 : 5), kTop - 9, "start", kMuted, 11, fitting[i]);
  }
  return svg;
}

}  // namespace

std::string loss_svg(const std::vector<PlotRun>& runs, const std::string& title, const PlotOptions& options) {
  const std::vector<Series> series = series_of(runs, options.x);
  const Frame frame = frame_of(series, options);
  const char* const x_name = plot_x_name(options.x);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\" "
      "font-family=\"system-ui, 'DejaVu Sans', sans-serif\" fill=\"none\" stroke-linejoin=\"round\">\n"
      "<title>loss of {}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      kWidth, kHeight, kWidth, kHeight, html::escaped(title));
  svg += text_at(kLeft, 30, "start", kInk, 17, title);
  const bool empty =
      std::all_of(runs.begin(), runs.end(), [](const PlotRun& run) { return run.metrics.empty(); });
  if (empty) {
    svg += text_at(kWidth / 2, kHeight / 2, "middle", kMuted, 15, "no steps yet");
  } else {
    svg +=
        axes(frame, x_name) + phases(runs, options.x, frame) + curves(series, frame, x_name) + legend(series);
  }
  return svg + "</svg>\n";
}

}  // namespace athanor::observe
