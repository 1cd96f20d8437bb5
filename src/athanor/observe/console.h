// What a person sees while a run goes on: a header box, a live bar on a terminal or plain lines elsewhere.
//
//   Console console({.write = [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr);
//   },
//                    .is_terminal = true, .color = true, .utf8 = true, .width = 100});
//   console.header("athanor · first", {{"model", "llama, 8 x 256"}, {"parameters", "10.1 M"}});
//   console.step(metrics, 400);         // rewrites the bar, or writes a line every log_every steps
//   console.validation(metrics, 400);   // a line that stays
//   console.message("saved step 100");  // likewise, above the bar
//   console.finish();                   // ends the bar's line
//
// A plain line reads
//   step 00010/400 | loss 5.1234 | en 5.01 zh 6.20 | norm 1.23 | lr 3.0e-04 | 1,234 tok/s | mfu 12.3 % | eta
//   1m02s
//
// The library reads no environment: the caller says what it writes to (NO_COLOR becomes color = false, a
// width may change between calls). Control characters are stripped from every text. What does not fit into
// the terminal's line is left out, the least important first. Thread rule: a console belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/observe/metrics.h"

namespace athanor {

struct ConsoleOptions {
  std::function<void(std::string_view)> write;
  bool is_terminal = false;
  bool color = false;
  bool utf8 = true;
  size_t width = 100;     // columns
  int64_t log_every = 1;  // steps per plain line; the first and the last step always have one
};

using Rows = std::vector<std::pair<std::string, std::string>>;

class Console {
 public:
  explicit Console(ConsoleOptions options);

  void header(const std::string& title, const Rows& rows);
  void step(const StepMetrics& metrics, int64_t total_steps);
  void validation(const StepMetrics& metrics, int64_t total_steps);
  void message(std::string_view text);
  void warning(std::string_view text);
  // Columns are as wide as their widest cell; all but the first are set to the right.
  void table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows);
  void finish();

  void set_width(size_t columns) { options_.width = columns; }

 private:
  void line(const std::string& text);  // a line that stays, above the bar
  std::string bar(const StepMetrics& metrics, int64_t total_steps) const;
  std::string painted(const char* style, const std::string& text) const;
  std::string shown(std::string_view text) const;
  std::string eta(const StepMetrics& metrics, int64_t total_steps) const;

  ConsoleOptions options_;
  std::string bar_;              // the bar on screen; empty: none
  double seconds_per_step_ = 0;  // moving average, for the time left
  double undrawn_seconds_ = 0;   // since the bar was last drawn
};

}  // namespace athanor
