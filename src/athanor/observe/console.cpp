#include "athanor/observe/console.h"

#include <fmt/core.h>

#include <algorithm>

#include "athanor/base/columns.h"
#include "athanor/base/human.h"
#include "athanor/observe/header_box.h"

namespace athanor::observe {

Console::Console(ConsoleOptions options)
    : options_(std::move(options)),
      style_{options_.color, options_.utf8},
      step_line_(style_),
      start_seconds_(options_.clock()) {}

// Where the window became narrower than the bar, the bar has been wrapped into several lines.
std::string Console::without_bar() const {
  if (!has_bar_) return "";
  const size_t columns = std::max<size_t>(1, this->columns());
  const size_t above = bar_columns_ > columns ? (bar_columns_ - 1) / columns : 0;
  return above == 0 ? "\r\x1b[K" : fmt::format("\r\x1b[{}A\x1b[J", above);
}

void Console::line(const std::string& text) {
  std::string out = without_bar() + text + "\n";
  if (has_bar_) {
    const std::string bar = step_line_.bar(columns());
    bar_columns_ = screen_columns(bar);
    out += bar;
  }
  options_.write(out);
}

void Console::message(std::string_view text) {
  line(style_.shown(text));
}

void Console::warning(std::string_view text) {
  line(style_.painted(kYellow, "warning: ") + style_.shown(text));
}

void Console::finish() {
  if (has_bar_) options_.write("\n");
  has_bar_ = false;
}

void Console::header(const std::string& title, const Rows& rows) {
  line(header_box(title, rows, columns(), style_));
}

void Console::step(const StepMetrics& m, int64_t total_steps) {
  step_line_.add(m, total_steps, options_.clock() - start_seconds_);
  undrawn_seconds_ += m.step_seconds;
  const bool first_or_last = m.step == 1 || m.step >= total_steps;
  if (options_.is_terminal) {
    constexpr double kRedrawSeconds = 0.05;  // faster is flicker
    if (has_bar_ && !first_or_last && undrawn_seconds_ < kRedrawSeconds) return;
    undrawn_seconds_ = 0;
    const std::string before = without_bar(), bar = step_line_.bar(columns());
    // Overwritten in place: a bar that is taken away first flickers.
    options_.write((before.ends_with('J') ? before : "\r") + bar + "\x1b[K");
    bar_columns_ = screen_columns(bar);
    has_bar_ = true;
    return;
  }
  if (first_or_last || m.step % options_.log_every == 0) options_.write(step_line_.plain(columns()) + "\n");
}

void Console::validation(const StepMetrics& m, int64_t total_steps) {
  if (!m.valid_loss) return;
  step_line_.add_validation(*m.valid_loss);
  std::string text = style_.painted(kGreen, "valid") + " " + step_of_total(m.step, total_steps) + " | loss " +
                     style_.painted(kBold, fmt::format("{:.4f}", *m.valid_loss));
  const std::string channels = style_.shown(channel_text(m.valid_channel_loss));
  const size_t columns = std::max<size_t>(20, this->columns());
  constexpr size_t kBar = 3, kIndent = 6;
  if (!channels.empty() && screen_columns(text) + kBar + display_width(channels) < columns) {
    text += " | " + channels;
  } else if (!channels.empty()) {
    size_t widest = 0;
    for (const auto& [name, loss] : m.valid_channel_loss)
      widest = std::max(widest, display_width(style_.shown(name)));
    std::vector<std::string> cells;
    for (const auto& [name, loss] : m.valid_channel_loss)
      cells.push_back(pad_columns(style_.shown(name), widest) + fmt::format(" {:>7.4f}", loss));
    for (const std::string& row : grid_columns(cells, columns - kIndent - 1, kBar))
      text += "\n" + std::string(kIndent, ' ') + row;
  }
  line(text);
}

void Console::sample(const TextSample& sample) {
  constexpr size_t kMostLines = 8, kIndent = 2, kReadable = 100;
  const size_t columns = std::clamp(this->columns(), size_t{20}, kReadable) - kIndent - 4;  // " ..."
  std::string text = style_.painted(kCyan, fmt::format("sample after step {}", sample.step));
  std::string whole = sample.prompt + sample.text;
  size_t num_lines = 0;
  for (std::string_view rest = whole; num_lines < kMostLines;) {
    const size_t end = rest.find('\n');
    std::string shown = style_.shown(rest.substr(0, end));
    shown.erase(0, shown.find_first_not_of(' '));
    const bool blank = shown.empty();
    for (const std::string& line : wrap_columns(shown, columns))
      if (!blank && num_lines++ < kMostLines) text += "\n" + std::string(kIndent, ' ') + line;
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  if (num_lines > kMostLines) text += style_.utf8 ? " …" : " ...";
  line(text);
}

bool Console::plot(const std::vector<LossCurve>& curves, const std::vector<PhaseMark>& phases, bool log_scale,
                   const std::string& x_name) {
  constexpr size_t kWidest = 120, kRows = 10;
  const auto lines = terminal_plot(curves, {.columns = std::min(kWidest, columns()),
                                            .rows = kRows,
                                            .log_scale = log_scale,
                                            .x_name = x_name,
                                            .style = style_,
                                            .phases = phases});
  std::string text;
  for (const std::string& each : lines) text += (text.empty() ? "" : "\n") + each;
  if (!text.empty()) line(text);
  return !text.empty();
}

void Console::table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(head.size());
  for (size_t i = 0; i < head.size(); ++i) widths[i] = display_width(style_.shown(head[i]));
  for (const auto& row : rows)
    for (size_t i = 0; i < std::min(row.size(), widths.size()); ++i)
      widths[i] = std::max(widths[i], display_width(style_.shown(row[i])));
  const auto row_text = [&](const std::vector<std::string>& row) {
    std::string text;
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::string cell = i < row.size() ? style_.shown(row[i]) : "";
      const std::string space(widths[i] - display_width(cell), ' ');
      text += (i == 0 ? " " : "   ") + (i == 0 ? cell + space : space + cell);
    }
    return text + " ";
  };
  size_t total = 2;
  for (size_t i = 0; i < widths.size(); ++i) total += widths[i] + (i == 0 ? 0 : 3);
  std::string text = style_.painted(kBold, row_text(head)) + "\n" +
                     style_.painted(kDim, repeat_text(style_.glyphs().across, total));
  for (const auto& row : rows) text += "\n" + row_text(row);
  line(text);
}

}  // namespace athanor::observe
