// Plots the loss curves of one or several runs as one self-contained SVG: no scripts, no fonts, no links.
//
//   env.write_atomically("runs/first/loss.svg", loss_svg({{"first", metrics}}, "first"));
//   env.write_atomically("both.svg", loss_svg({{"first", a}, {"second", b}}, "first, second", {.log_scale = true}));
//
// One run: the channels are faint lines, the loss over all channels is a dark line. Several runs: each has its colour.
// A noisy curve is smoothed and drawn over the original, which is a faint line. Validation losses are dots joined by
// lines, that of step 0 included (loss_curves.h). Of a long run each column of pixels shows the mean. A NaN leaves a
// gap. Where a phase begins there is a thin line with its name (phase_marks.h); those of several runs at one place are
// one. Thread rule: pure function.
#pragma once

#include <string>
#include <vector>

#include "athanor/observe/loss_curves.h"
#include "athanor/observe/phase_marks.h"

namespace athanor::observe {

struct PlotRun {
  std::string name;
  std::vector<StepMetrics> metrics;
  std::vector<BegunPhase> phases = {};
};

struct PlotOptions {
  PlotX x = PlotX::step;
  bool log_scale = false;
};

std::string loss_svg(const std::vector<PlotRun>& runs, const std::string& title,
                     const PlotOptions& options = {});

}  // namespace athanor::observe
