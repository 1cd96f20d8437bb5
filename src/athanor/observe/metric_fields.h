// The table of metrics of a step: every output of a run (metrics.jsonl, TensorBoard, ...) writes the fields of this
// table. A new metric is one line here and one member of StepMetrics.
//
//   for (const MetricField& field : metric_fields())
//     if (field.is_in(metrics)) std::visit(print, field.slot(metrics));
//
// The order is that of a line of metrics.jsonl; readers find fields by name. Thread rule: the table never changes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "athanor/observe/metrics.h"

namespace athanor::observe {

// A counter only grows within a run; a gauge is the value of this step.
enum class MetricKind : uint8_t { counter, gauge };

// Where the value lies in a StepMetrics.
using MetricSlot = std::variant<int64_t*, double*, ChannelValues*, std::vector<double>*>;

struct MetricField {
  std::string_view name;  // in metrics.jsonl
  std::string_view unit;  // "" for a number without one
  MetricKind kind = MetricKind::gauge;
  MetricSlot (*slot)(StepMetrics&);           // creates an optional value that is not there yet
  bool (*has)(const StepMetrics&) = nullptr;  // whether a step has it; null: every step
  std::string_view chart = {};                // its tag in TensorBoard (per channel: TAG/NAME); "": none
  double chart_factor = 1;                    // TensorBoard's value over the value here
  std::optional<double> chart_unless = std::nullopt;  // not charted if it has this value

  bool is_in(const StepMetrics& metrics) const { return has == nullptr || has(metrics); }
};

const std::vector<MetricField>& metric_fields();

}  // namespace athanor::observe
