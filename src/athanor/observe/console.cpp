#include "athanor/observe/console.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "athanor/base/human.h"

namespace athanor {
namespace {

constexpr const char* kPlain = "";
constexpr const char* kBold = "1";
constexpr const char* kDim = "2";
constexpr const char* kCyan = "36";
constexpr const char* kGreen = "32";
constexpr const char* kYellow = "33";

struct Glyphs {
  const char *top_left, *top_right, *bottom_left, *bottom_right, *across, *down, *done, *tip, *todo,
      *ellipsis;
};
constexpr Glyphs kUnicode = {"╭", "╮", "╰", "╯", "─", "│", "━", "╸", "─", "…"};
constexpr Glyphs kAscii = {"+", "+", "+", "+", "-", "|", "=", ">", "-", "~"};

const Glyphs& glyphs(bool utf8) {
  return utf8 ? kUnicode : kAscii;
}

std::string repeat(const char* text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

std::string padded(const std::string& text, size_t width) {
  const size_t used = display_width(text);
  return text + std::string(used < width ? width - used : 0, ' ');
}

// Breaks at spaces; a word longer than the line is cut.
std::vector<std::string> wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  width = std::max<size_t>(width, 2);
  while (display_width(text) > width) {
    std::string_view piece = fit_columns(text, width);
    const size_t space = text.substr(0, piece.size() + 1).rfind(' ');
    if (space != std::string_view::npos && space > 0) piece = text.substr(0, space);
    lines.emplace_back(piece);
    text.remove_prefix(piece.size());
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
  lines.emplace_back(text);
  return lines;
}

std::string per_second(double tokens_per_second) {
  if (!(tokens_per_second >= 0)) return "? tok/s";
  const bool large = tokens_per_second >= 1e7;
  return (large ? human_count(tokens_per_second) : with_commas(std::lround(tokens_per_second))) + " tok/s";
}

std::string step_number(int64_t step, int64_t total) {
  const size_t digits = std::max<size_t>(5, fmt::format("{}", total).size());
  return fmt::format("{:0{}}/{}", step, digits, total);
}

std::string channel_list(const ChannelValues& channels) {
  std::string text;
  for (const auto& [name, loss] : channels)
    text += fmt::format("{}{} {:.2f}", text.empty() ? "" : " ", name, loss);
  return text;
}

}  // namespace

Console::Console(ConsoleOptions options) : options_(std::move(options)) {}

std::string Console::painted(const char* style, const std::string& text) const {
  const bool paint = options_.color && style[0] != '\0' && !text.empty();
  return paint ? fmt::format("\x1b[{}m{}\x1b[0m", style, text) : text;
}

std::string Console::shown(std::string_view text) const {
  std::string safe = printable(text);
  if (options_.utf8) return safe;
  std::string ascii;
  for (std::string_view rest = safe; !rest.empty();) {
    const auto [code, size] = first_code_point(rest);
    ascii += code < 0x80 ? static_cast<char>(code) : code == 0xb7 ? '-' : code == 0xd7 ? 'x' : '?';
    rest.remove_prefix(size);
  }
  return ascii;
}

void Console::line(const std::string& text) {
  options_.write((bar_.empty() ? "" : "\r\x1b[K") + text + "\n" + bar_);
}

void Console::message(std::string_view text) {
  line(shown(text));
}

void Console::warning(std::string_view text) {
  line(painted(kYellow, "warning: ") + shown(text));
}

void Console::finish() {
  if (!bar_.empty()) options_.write("\n");
  bar_.clear();
}

void Console::header(const std::string& title, const Rows& rows) {
  const Glyphs& g = glyphs(options_.utf8);
  const size_t widest_box = std::max<size_t>(options_.is_terminal ? options_.width : 110, 20);
  const std::string head = shown(title);
  size_t key_width = 0, value_width = 0;
  for (const auto& [key, value] : rows) {
    key_width = std::max(key_width, display_width(shown(key)));
    value_width = std::max(value_width, display_width(shown(value)));
  }
  const size_t frame = key_width + 7;  // "│ key   value │"
  value_width = std::min(value_width, widest_box > frame + 4 ? widest_box - frame : 4);
  size_t inner = std::max(key_width + value_width + 5, display_width(head) + 5);
  value_width = inner - key_width - 5;
  std::string box = painted(kDim, fmt::format("{}{} ", g.top_left, g.across)) + painted(kBold, head) + ' ' +
                    painted(kDim, repeat(g.across, inner - display_width(head) - 3) + g.top_right) + '\n';
  for (const auto& [key, value] : rows) {
    std::string label = shown(key);
    for (const std::string& piece : wrap(shown(value), value_width)) {
      box += fmt::format("{} {}   {} {}\n", painted(kDim, g.down), painted(kDim, padded(label, key_width)),
                         padded(piece, value_width), painted(kDim, g.down));
      label.clear();
    }
  }
  line(box + painted(kDim, g.bottom_left + repeat(g.across, inner) + g.bottom_right));
}

std::string Console::eta(const StepMetrics& metrics, int64_t total_steps) const {
  return human_seconds(seconds_per_step_ *
                       static_cast<double>(std::max<int64_t>(0, total_steps - metrics.step)));
}

namespace {

// How much busier than the mean the busiest expert is, and what was dropped.
std::string load_text(const ExpertMetrics& experts) {
  std::string text = fmt::format("{:.2f}", experts.max_over_mean);
  if (experts.drop_share > 0) text += fmt::format(" (drops {:.1f} %)", 100 * experts.drop_share);
  return text;
}

}  // namespace

void Console::step(const StepMetrics& m, int64_t total_steps) {
  constexpr double kMemory = 0.95;  // about the last twenty steps
  seconds_per_step_ =
      seconds_per_step_ == 0 ? m.step_seconds : kMemory * seconds_per_step_ + (1 - kMemory) * m.step_seconds;
  undrawn_seconds_ += m.step_seconds;
  const bool first_or_last = m.step == 1 || m.step >= total_steps;
  if (options_.is_terminal) {
    constexpr double kRedrawSeconds = 0.05;  // faster is flicker
    if (!bar_.empty() && !first_or_last && undrawn_seconds_ < kRedrawSeconds) return;
    undrawn_seconds_ = 0;
    bar_ = bar(m, total_steps);
    options_.write("\r" + bar_ + "\x1b[K");
    return;
  }
  if (!first_or_last && m.step % options_.log_every != 0) return;
  std::string text = fmt::format("step {} | loss {:.4f}", step_number(m.step, total_steps), m.loss);
  if (!m.channel_loss.empty()) text += " | " + shown(channel_list(m.channel_loss));
  text += fmt::format(" | norm {:.2f} | lr {:.1e} | {} | mfu {:.1f} %", m.grad_norm, m.lr,
                      per_second(m.tokens_per_second), 100 * m.mfu);
  if (m.experts) text += " | load " + load_text(*m.experts);
  options_.write(text + " | eta " + eta(m, total_steps) + "\n");
}

// Parts in the order in which they stand. By rank, each that still fits is shown.
std::string Console::bar(const StepMetrics& m, int64_t total_steps) const {
  struct Part {
    int rank;
    std::string label, value;
    const char* style;
    bool fits = false;
  };
  std::vector<Part> parts = {
      {0, "loss ", fmt::format("{:.4f}", m.loss), kBold},
      {3, "", shown(channel_list(m.channel_loss)), kPlain},
      {5, "norm ", fmt::format("{:.2f}", m.grad_norm), kPlain},
      {6, "lr ", fmt::format("{:.1e}", m.lr), kPlain},
      {7, "load ", m.experts ? load_text(*m.experts) : "", kPlain},
      {2, "", per_second(m.tokens_per_second), kPlain},
      {4, "mfu ", fmt::format("{:.1f} %", 100 * m.mfu), kPlain},
      {1, "eta ", eta(m, total_steps), kBold},
  };
  const bool known = total_steps > 0 && m.step < total_steps;
  const double done = known ? static_cast<double>(m.step) / static_cast<double>(total_steps) : 1;
  const std::string count =
      fmt::format(" {:>{}}/{} ", m.step, fmt::format("{}", total_steps).size(), total_steps);
  const std::string percent = fmt::format(" {:>3.0f} %", std::floor(100 * done));
  // The last column stays empty: writing it makes some terminals wrap.
  constexpr size_t kShortestBar = 10, kLongestBar = 30;
  const size_t room = options_.width > 1 ? options_.width - 1 : 0;
  size_t used = count.size() + percent.size() + kShortestBar;
  if (used > room) return std::string(fit_columns(count + percent, room));
  for (int rank = 0; rank < static_cast<int>(parts.size()); ++rank)
    for (auto& part : parts) {
      const size_t width = 2 + display_width(part.label) + display_width(part.value);
      if (part.rank != rank || part.value.empty() || used + width > room) continue;
      part.fits = true;
      used += width;
    }
  const Glyphs& g = glyphs(options_.utf8);
  const size_t length = std::min(kLongestBar, kShortestBar + room - used);
  const auto filled = static_cast<size_t>(done * static_cast<double>(length));
  const size_t tip = filled < length ? 1 : 0;
  std::string text = count + painted(kCyan, repeat(g.done, filled) + repeat(g.tip, tip)) +
                     painted(kDim, repeat(g.todo, length - filled - tip)) + percent;
  for (const auto& part : parts)
    if (part.fits) text += "  " + painted(kDim, part.label) + painted(part.style, part.value);
  return text;
}

void Console::validation(const StepMetrics& m, int64_t total_steps) {
  if (!m.valid_loss) return;
  std::string text = painted(kGreen, "valid") + fmt::format(" {} | loss ", step_number(m.step, total_steps)) +
                     painted(kBold, fmt::format("{:.4f}", *m.valid_loss));
  if (!m.valid_channel_loss.empty()) text += " | " + shown(channel_list(m.valid_channel_loss));
  line(text);
}

void Console::table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  const Glyphs& g = glyphs(options_.utf8);
  std::vector<size_t> widths(head.size());
  for (size_t i = 0; i < head.size(); ++i) widths[i] = display_width(shown(head[i]));
  for (const auto& row : rows)
    for (size_t i = 0; i < std::min(row.size(), widths.size()); ++i)
      widths[i] = std::max(widths[i], display_width(shown(row[i])));
  const auto row_text = [&](const std::vector<std::string>& row) {
    std::string text;
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::string cell = i < row.size() ? shown(row[i]) : "";
      const std::string space(widths[i] - display_width(cell), ' ');
      text += (i == 0 ? " " : "   ") + (i == 0 ? cell + space : space + cell);
    }
    return text + " ";
  };
  size_t total = 2;
  for (size_t i = 0; i < widths.size(); ++i) total += widths[i] + (i == 0 ? 0 : 3);
  std::string text = painted(kBold, row_text(head)) + "\n" + painted(kDim, repeat(g.across, total));
  for (const auto& row : rows) text += "\n" + row_text(row);
  line(text);
}

}  // namespace athanor
