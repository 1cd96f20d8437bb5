// The losses of a run as curves, for plots.
//
//   const auto metrics = with_first_evaluation(lines, report.valid_loss_first, report.channel_loss_first);
//   const std::vector<LossCurve> curves = loss_curves(metrics, "first", PlotX::step);   // train and validation
//
// A NaN stays in a curve and leaves a gap when drawn. Thread rule: pure functions.
#pragma once

#include <string>
#include <vector>

#include "athanor/observe/metrics.h"

namespace athanor::observe {

struct CurvePoint {
  double x = 0, value = 0;
};

struct LossCurve {
  std::string run;        // its name; empty if there is only one run
  bool is_valid = false;  // validation losses: few, drawn as dots
  std::vector<CurvePoint> points = {};
};

enum class PlotX { step, tokens, time };  // time: hours of training, without evaluations and saves

const char* plot_x_name(PlotX x);  // for the axis: "step", "tokens", "hours of training"
double plot_x(PlotX x, const StepMetrics& metrics, double seconds_so_far);

// The loss over all channels; a curve without any point is left out.
std::vector<LossCurve> loss_curves(const std::vector<StepMetrics>& metrics, const std::string& run, PlotX x);

// Puts the evaluation before the first step in front, as a line of step 0 without a training loss. valid_loss NaN:
// there was no such evaluation.
std::vector<StepMetrics> with_first_evaluation(std::vector<StepMetrics> metrics, double valid_loss,
                                               const ChannelValues& valid_channel_loss);

// The names of all channels, in the order of the config. A line may lack channels, but has the others in this order.
std::vector<std::string> channel_names(const std::vector<StepMetrics>& metrics);

// A centred moving mean over `reach` points on both sides. Values that are not finite do not count in the means and
// stay as they are.
std::vector<CurvePoint> smoothed(const std::vector<CurvePoint>& points, size_t reach);

}  // namespace athanor::observe
