// The losses of a run as curves, for whoever draws them.
//
//   const auto metrics = with_first_evaluation(lines, report.valid_loss_first, report.channel_loss_first);
//   const std::vector<LossCurve> curves = loss_curves(metrics, "first", PlotX::step);   // train and validation
//
// What is not a number stays in a curve and leaves a gap when drawn. Thread rule: pure functions.
#pragma once

#include <string>
#include <vector>

#include "athanor/observe/metrics.h"

namespace athanor {

struct CurvePoint {
  double x = 0, value = 0;
};

struct LossCurve {
  std::string run;        // empty: there is one only
  bool is_valid = false;  // validation losses: few, drawn as dots
  std::vector<CurvePoint> points = {};
};

enum class PlotX { step, tokens, time };  // time: hours of training, evaluations and saves apart

const char* plot_x_name(PlotX x);  // for the axis: "step", "tokens", "hours of training"
double plot_x(PlotX x, const StepMetrics& metrics, double seconds_so_far);

// Of all channels together; a curve without any point is left out.
std::vector<LossCurve> loss_curves(const std::vector<StepMetrics>& metrics, const std::string& run, PlotX x);

// The evaluation before the first step is a line of step 0, which has no loss of training. NaN: there was none.
std::vector<StepMetrics> with_first_evaluation(std::vector<StepMetrics> metrics, double valid_loss,
                                               const ChannelValues& valid_channel_loss);

// Names of channels in the order of the config, of which every line has a part in its order.
std::vector<std::string> channel_names(const std::vector<StepMetrics>& metrics);

// A centred moving mean over `reach` points on both sides; what is not finite is left out, and stays.
std::vector<CurvePoint> smoothed(const std::vector<CurvePoint>& points, size_t reach);

}  // namespace athanor
