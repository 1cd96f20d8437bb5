#include <algorithm>
#include <array>
#include <cmath>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/pipeline/draw.h"

namespace athanor::pipeline {
namespace {

constexpr double kWidth = 1280, kLeft = 76, kRight = 1180, kTop = 92, kRow = 36, kGap = 8;
constexpr const char* kInk = "#1f2937";
constexpr const char* kMuted = "#6b7280";

struct Colour {
  int red, green, blue;
};
// Colours that colour-blind readers can distinguish (Okabe and Ito, 2008).
Colour colour_of(Act act) {
  switch (act) {
    case Act::forward:
      return {0, 114, 178};
    case Act::backward:
      return {213, 94, 0};
    case Act::input_grad:
      return {230, 159, 0};
    case Act::weight_grad:
      return {0, 158, 115};
  }
  return {};
}

std::string hex(Colour colour, double paleness) {
  const auto mix = [&](int channel) {
    return static_cast<int>(std::lround(channel + (255 - channel) * paleness));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(colour.red), mix(colour.green), mix(colour.blue));
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : printable(text)) {
    if (c == '<' || c == '>' || c == '&' || c == '"')
      safe += fmt::format("&#{};", static_cast<int>(c));
    else
      safe += c;
  }
  return safe;
}

std::string label(double x, double y, const char* colour, int size, const char* anchor,
                  const std::string& words) {
  return fmt::format(
      "<text x=\"{:.2f}\" y=\"{:.2f}\" fill=\"{}\" font-size=\"{}\" text-anchor=\"{}\">{}</text>\n", x, y,
      colour, size, anchor, escaped(words));
}

// The distance of grid lines: 1, 2 or 5 times a power of ten, about ten of them.
double grid_step(double makespan) {
  const double power = std::pow(10.0, std::floor(std::log10(makespan / 5.0)));
  for (const double step : {1.0, 2.0, 5.0})
    if (makespan / (step * power) <= 12.0) return step * power;
  return 10.0 * power;
}

std::string legend(const Schedule& schedule) {
  std::array<bool, 128> used{};
  for (const auto& actions : schedule.ranks)
    for (const Action& action : actions) used[static_cast<size_t>(action.act)] = true;
  struct Entry {
    Act act;
    const char* words;
    double width;
  };
  const Entry entries[] = {{Act::forward, "forward", 86},
                           {Act::backward, "backward", 98},
                           {Act::input_grad, "input gradient", 128},
                           {Act::weight_grad, "weight gradient", 0}};
  std::string text;
  double x = kLeft;
  for (const auto& [act, words, width] : entries) {
    if (!used[static_cast<size_t>(act)]) continue;
    text += fmt::format("<rect x=\"{:.2f}\" y=\"62\" width=\"14\" height=\"14\" rx=\"3\" fill=\"{}\"/>\n", x,
                        hex(colour_of(act), 0.0));
    text += label(x + 20, 74, kMuted, 13, "start", words);
    x += width;
  }
  if (schedule.num_stages() > schedule.num_ranks())
    text += label(kRight, 74, kMuted, 13, "end", "paler: later stages of a rank");
  return text;
}

}  // namespace

std::string draw_svg(const Schedule& schedule, const Simulation& run) {
  const double makespan = run.makespan > 0.0 ? run.makespan : 1.0;
  const double bottom = kTop + schedule.num_ranks() * (kRow + kGap), height = bottom + 36;
  const auto x_of = [&](double time) { return kLeft + (kRight - kLeft) * time / makespan; };
  const double peak = *std::max_element(run.peak_activations.begin(), run.peak_activations.end());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {:.0f}\" font-family=\"system-ui, 'DejaVu "
      "Sans', "
      "sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      kWidth, height);
  svg += label(kLeft, 28, kInk, 19, "start",
               fmt::format("{}: {} ranks, {} stages, {} micro-batches", schedule.name, schedule.num_ranks(),
                           schedule.num_stages(), schedule.micro_batches));
  svg += label(
      kLeft, 49, kMuted, 13, "start",
      fmt::format("makespan {:.6g}, of all ranks' time {:.1f} % idle, at most {:.6g} activations on a rank",
                  run.makespan, 100.0 * run.bubble_share, peak));
  svg += legend(schedule);
  const double step = grid_step(makespan);
  for (int i = 0; i * step <= makespan * (1.0 + 1e-9); ++i) {
    const double x = x_of(i * step);
    svg += fmt::format(
        "<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1:.2f}\" y2=\"{2:.2f}\" stroke=\"#d1d5db\"/>\n", x,
        kTop - 4, bottom);
    svg += label(x, bottom + 18, kMuted, 12, "middle", fmt::format("{:.6g}", i * step));
  }
  svg += label(kRight + 12, kTop - 10, kMuted, 12, "start", "peak");
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    const auto r = static_cast<size_t>(rank);
    const double top = kTop + rank * (kRow + kGap), middle = top + kRow / 2 + 4.5;
    svg += label(kLeft - 10, middle, kInk, 13, "end", fmt::format("rank {}", rank));
    svg += label(kRight + 12, middle, kMuted, 13, "start", fmt::format("{:.6g}", run.peak_activations[r]));
    svg +=
        fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"#eef0f3\"/>\n",
                    kLeft, top, kRight - kLeft, kRow);
    const std::vector<int> stages = schedule.stages_of(rank);
    for (const auto& [action, start, end] : run.timeline[r]) {
      if (end <= start) continue;
      const auto chunk = std::lower_bound(stages.begin(), stages.end(), action.stage) - stages.begin();
      const double paleness =
          stages.size() < 2 ? 0.0
                            : 0.55 * static_cast<double>(chunk) / static_cast<double>(stages.size() - 1);
      const double width = x_of(end) - x_of(start);
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\" stroke=\"#ffffff\" "
          "stroke-width=\"{:.2f}\"><title>{} {:.6g} to {:.6g}</title></rect>\n",
          x_of(start), top, width, kRow, hex(colour_of(action.act), paleness), std::min(1.0, width * 0.15),
          str(action), start, end);
      const std::string number = std::to_string(action.micro_batch);
      const bool dark = paleness > 0.3 || action.act == Act::input_grad;
      if (width >= 8.0 * static_cast<double>(number.size()) + 2.0)
        svg += label(x_of(start) + width / 2, middle, dark ? kInk : "#ffffff", 13, "middle", number);
    }
  }
  return svg + "</svg>\n";
}

}  // namespace athanor::pipeline
