// One line about a step: the progress bar on a terminal, or a plain line elsewhere.
//
//   StepLine line({.color = true, .utf8 = true});
//   line.add(metrics, total_steps, elapsed_seconds);   // after every step
//   line.bar(80);     // "  20/400 ━╸────────  loss 5.1234  1,234 tok/s  step 155 ms  3s, eta 58s"
//   line.plain(80);   // "step 020/400 | loss 5.1234 | 1,234 tok/s | step 155 ms | 3s, eta 58s"
//
// What does not fit is left out, the least important first. Values do not jump: a value keeps the width of its widest
// text so far, and a channel without tokens in a step keeps its last loss. Thread rule: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "athanor/observe/metrics.h"
#include "athanor/observe/sparkline.h"
#include "athanor/observe/terminal_style.h"

namespace athanor::observe {

class StepLine {
 public:
  explicit StepLine(TerminalStyle style);

  void add(const StepMetrics& metrics, int64_t total_steps, double elapsed_seconds);
  void add_validation(double valid_loss);  // the best one is shown
  std::string bar(size_t columns) const;
  std::string plain(size_t columns) const;

  struct Part {
    std::string label, value;
    const char* style = kPlain;
    size_t columns = 0;  // the widest value so far
  };

 private:
  enum Index { percent, loss, best, trail, channels, grad_norm, lr, load, rate, mfu, step_time, time, count };

  void set(Index part, const std::string& value);
  bool fits(Index part, size_t room, size_t gap, size_t* used) const;

  TerminalStyle style_;
  std::array<Part, count> parts_;  // in the order of the line
  Trail losses_;
  ChannelValues channel_loss_;
  std::optional<double> best_;
  int64_t step_ = 0, total_steps_ = 0;
  double seconds_per_step_ = 0;  // moving average, for the time left
};

// "step 012/400"
std::string step_of_total(int64_t step, int64_t total_steps);
// "en 5.01 zh 6.20"
std::string channel_text(const ChannelValues& channels);

}  // namespace athanor::observe
