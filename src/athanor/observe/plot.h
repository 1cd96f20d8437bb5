// The loss curves of a run, or of several, as one self-contained SVG: no scripts, no fonts, no links.
//
//   env.write_atomically("runs/first/loss.svg", loss_svg({{"first", metrics}}, "first"));
//   env.write_atomically("both.svg", loss_svg({{"first", a}, {"second", b}}, "first, second", {.log_scale = true}));
//
// Of one run the channels are faint lines and the whole loss a dark one; of several, each has its colour. A curve that is
// noisier than it is tall is smoothed, over what it was, which stays as a faint line. Validation losses are dots joined by
// lines, of a line of step 0 too (loss_curves.h). Long runs are drawn as the mean of each column of pixels. What is not a
// number leaves a gap. Thread rule: pure function.
#pragma once

#include <string>
#include <vector>

#include "athanor/observe/loss_curves.h"

namespace athanor {

struct PlotRun {
  std::string name;
  std::vector<StepMetrics> metrics;
};

struct PlotOptions {
  PlotX x = PlotX::step;
  bool log_scale = false;
};

std::string loss_svg(const std::vector<PlotRun>& runs, const std::string& title,
                     const PlotOptions& options = {});

}  // namespace athanor
