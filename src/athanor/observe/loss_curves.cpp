#include "athanor/observe/loss_curves.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace athanor::observe {
namespace {

// A name that is not in the list yet is inserted after its predecessor in the line.
void merge_names(const ChannelValues& values, std::vector<std::string>& names) {
  auto at = names.begin();
  for (const auto& [name, value] : values) {
    const auto known = std::find(names.begin(), names.end(), name);
    at = 1 + (known == names.end() ? names.insert(at, name) : known);
  }
}

}  // namespace

const char* plot_x_name(PlotX x) {
  return x == PlotX::step ? "step" : x == PlotX::tokens ? "tokens" : "hours of training";
}

double plot_x(PlotX x, const StepMetrics& metrics, double seconds_so_far) {
  constexpr double kHour = 3600;
  return x == PlotX::step     ? static_cast<double>(metrics.step)
         : x == PlotX::tokens ? static_cast<double>(metrics.tokens)
                              : seconds_so_far / kHour;
}

std::vector<LossCurve> loss_curves(const std::vector<StepMetrics>& metrics, const std::string& run, PlotX x) {
  LossCurve train{.run = run}, valid{.run = run, .is_valid = true};
  double seconds = 0;
  bool has_train = false;
  for (const StepMetrics& m : metrics) {
    if (std::isfinite(m.step_seconds)) seconds += m.step_seconds;
    const double at = plot_x(x, m, seconds);
    if (m.step > 0) train.points.push_back({at, m.loss});
    has_train = has_train || (m.step > 0 && std::isfinite(m.loss));
    if (m.valid_loss && std::isfinite(*m.valid_loss)) valid.points.push_back({at, *m.valid_loss});
  }
  std::vector<LossCurve> curves;
  if (has_train) curves.push_back(std::move(train));
  if (!valid.points.empty()) curves.push_back(std::move(valid));
  return curves;
}

std::vector<StepMetrics> with_first_evaluation(std::vector<StepMetrics> metrics, double valid_loss,
                                               const ChannelValues& valid_channel_loss) {
  if (!std::isfinite(valid_loss)) return metrics;
  StepMetrics first;
  first.loss = std::numeric_limits<double>::quiet_NaN();
  first.valid_loss = valid_loss;
  first.valid_channel_loss = valid_channel_loss;
  metrics.insert(metrics.begin(), std::move(first));
  return metrics;
}

std::vector<std::string> channel_names(const std::vector<StepMetrics>& metrics) {
  std::vector<std::string> names;
  for (const StepMetrics& m : metrics) merge_names(m.valid_channel_loss, names);
  for (const StepMetrics& m : metrics) merge_names(m.channel_loss, names);
  return names;
}

std::vector<CurvePoint> smoothed(const std::vector<CurvePoint>& points, size_t reach) {
  std::vector<double> sums(points.size() + 1, 0.0), counts(points.size() + 1, 0.0);
  for (size_t i = 0; i < points.size(); ++i) {
    const bool finite = std::isfinite(points[i].value);
    sums[i + 1] = sums[i] + (finite ? points[i].value : 0.0);
    counts[i + 1] = counts[i] + (finite ? 1.0 : 0.0);
  }
  std::vector<CurvePoint> means = points;
  for (size_t i = 0; i < points.size(); ++i) {
    // As many on both sides, so that the ends of a falling curve are not bent.
    const size_t side = std::min({reach, i, points.size() - 1 - i});
    const double count = counts[i + side + 1] - counts[i - side];
    if (std::isfinite(points[i].value) && count > 0)
      means[i].value = (sums[i + side + 1] - sums[i - side]) / count;
  }
  return means;
}

}  // namespace athanor::observe
