// The console output of a run: a header box, then a live progress bar on a terminal or plain lines elsewhere.
//
//   Console console({.write = [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); },
//                    .is_terminal = true, .color = true, .utf8 = true, .width = 100});
//   console.header("athanor · first", {{"model", "llama, 8 x 256"}, {"parameters", "10.1 M"}});
//   console.step(metrics, 400);         // redraws the bar, or writes a line every log_every steps
//   console.validation(metrics, 400);   // a line that stays
//   console.message("saved step 100");  // a line that stays, above the bar
//   console.finish();                   // ends the bar's line
//
// A plain line reads
//   step 010/400 | loss 5.1234 | 1,234 tok/s | step 155 ms | 2s, eta 1m02s
//
// The library reads no environment: the caller says what the console writes to (NO_COLOR becomes color = false).
// `columns` returns the present width, since a window may be resized. Control characters are stripped from every text.
// What does not fit into the line is left out, the least important first. Thread rule: a console belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/observe/metrics.h"
#include "athanor/observe/sample_log.h"
#include "athanor/observe/step_line.h"
#include "athanor/observe/terminal_plot.h"
#include "athanor/observe/terminal_style.h"

namespace athanor::observe {

struct ConsoleOptions {
  std::function<void(std::string_view)> write;
  bool is_terminal = false;
  bool color = false;
  bool utf8 = true;
  size_t width = 80;                     // columns
  int64_t log_every = 1;                 // steps per plain line; the first and the last step always have one
  std::function<size_t()> columns = {};  // asked before anything is drawn; empty: always `width`
  std::function<double()> clock = now_seconds;  // for the time since the console was made
};

// Keys and values. A value may be several cells, separated by kNextCell, which are laid out in as many columns as fit.
using Rows = std::vector<std::pair<std::string, std::string>>;
constexpr char kNextCell = '\t';

class Console {
 public:
  explicit Console(ConsoleOptions options);

  // In a wide window the rows are in two columns.
  void header(const std::string& title, const Rows& rows);
  void step(const StepMetrics& metrics, int64_t total_steps);
  void validation(const StepMetrics& metrics, int64_t total_steps);  // step 0: before the first
  void message(std::string_view text);
  void warning(std::string_view text);
  // A column is as wide as its widest cell; all columns but the first are right-aligned.
  void table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows);
  void sample(const TextSample& sample);  // a text that the model wrote, in a few lines
  // A small plot of the losses of runs; false if there is nothing to draw.
  bool plot(const std::vector<LossCurve>& curves, const std::vector<PhaseMark>& phases = {},
            bool log_scale = false, const std::string& x_name = "step");
  void finish();

  size_t columns() const { return options_.columns ? options_.columns() : options_.width; }
  const TerminalStyle& style() const { return style_; }

 private:
  void line(const std::string& text);  // a line that stays, above the bar
  std::string without_bar() const;     // takes the bar off the screen

  ConsoleOptions options_;
  TerminalStyle style_;
  StepLine step_line_;
  bool has_bar_ = false;    // the bar is on the screen
  size_t bar_columns_ = 0;  // the columns that it takes there
  double start_seconds_ = 0;
  double undrawn_seconds_ = 0;  // since the bar was last drawn
};

}  // namespace athanor::observe
