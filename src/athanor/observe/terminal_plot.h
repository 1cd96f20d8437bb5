// Loss curves drawn with characters: Braille dots, or ASCII without UTF-8.
//
//   for (const std::string& line : terminal_plot(loss_curves(metrics, "", PlotX::step), {.columns = 80, .rows = 10}))
//     print(line + "\n");
//
//   loss  warm-up  long context
//   4.82 ┤⢣        ┊
//        │⠈⢆●      ┊
//        │  ⠑⠢⢄⣀   ┊      ●
//   1.97 ┤      ⠉⠉⠒⠒⠤⠤⠤⠤⠤⠤⠤●
//        └─────────┴────────
//         0      step     400
//     ⠤ train 1.9821   ● valid 1.9734, best 1.9701 at 380
//
// The training loss is a line, each column showing a mean; validation losses are dots; a phase begins at a thin line with
// its name above. Several runs differ by colour
// or, without colour, by their characters. Thread rule: pure function.
#pragma once

#include <string>
#include <vector>

#include "athanor/observe/loss_curves.h"
#include "athanor/observe/phase_marks.h"
#include "athanor/observe/terminal_style.h"

namespace athanor::observe {

struct TerminalPlotOptions {
  size_t columns = 80;  // of every line, at most
  size_t rows = 10;     // of the plot itself; axis and legend come below
  bool log_scale = false;
  std::string x_name = "step";
  TerminalStyle style = {};
  std::vector<PhaseMark> phases = {};
};

// Empty if there is nothing to draw: fewer than two finite points.
std::vector<std::string> terminal_plot(const std::vector<LossCurve>& curves,
                                       const TerminalPlotOptions& options);

}  // namespace athanor::observe
