#include "athanor/observe/metrics.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/observe/metric_fields.h"

namespace athanor::observe {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string json_object(const ChannelValues& values) {
  std::string text = "{";
  for (const auto& [name, value] : values) {
    if (text.size() > 1) text += ',';
    text += quoted(name) + ':' + json_number(value);
  }
  return text + '}';
}

std::string json_array(const std::vector<double>& values) {
  std::string text = "[";
  for (const double value : values) text += (text.size() > 1 ? "," : "") + json_number(value);
  return text + ']';
}

struct Printed {
  std::string operator()(const int64_t* value) const { return std::to_string(*value); }
  std::string operator()(const double* value) const { return json_number(*value); }
  std::string operator()(const ChannelValues* values) const { return json_object(*values); }
  std::string operator()(const std::vector<double>* values) const { return json_array(*values); }
};

double number_of(const ordered_json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

struct Parsed {
  const ordered_json& value;
  void operator()(int64_t* into) const { *into = value.get<int64_t>(); }
  void operator()(double* into) const { *into = number_of(value); }
  void operator()(ChannelValues* into) const {
    for (const auto& [name, loss] : value.items()) into->emplace_back(name, number_of(loss));
  }
  void operator()(std::vector<double>* into) const {
    for (const ordered_json& each : value) into->push_back(number_of(each));
  }
};

}  // namespace

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), result.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string metrics_line(StepMetrics metrics) {
  std::string line;
  for (const MetricField& field : metric_fields())
    if (field.is_in(metrics))
      line += fmt::format("{}\"{}\":{}", line.empty() ? '{' : ',', field.name,
                          std::visit(Printed{}, field.slot(metrics)));
  return line + '}';
}

StepMetrics parse_metrics_line(std::string_view line) {
  try {
    const auto object = ordered_json::parse(line);
    StepMetrics metrics;
    for (const MetricField& field : metric_fields()) {
      const std::string name(field.name);
      if (field.has == nullptr || object.contains(name))
        std::visit(Parsed{object.at(name)}, field.slot(metrics));
    }
    return metrics;
  } catch (const json::exception& error) {
    fail("not a line of metrics: {}", error.what());
  }
}

std::vector<StepMetrics> read_metrics(Env& env, const std::string& path) {
  const std::string text = env.read_text(path);
  std::vector<StepMetrics> all;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    try {
      all.push_back(parse_metrics_line(std::string_view(text).substr(begin, end - begin)));
    } catch (const Error& error) {
      fail("{}:{}: {}", path, all.size() + 1, error.what());
    }
  }
  return all;
}

MetricsWriter::MetricsWriter(Env& env, const std::string& path, int64_t resumed_step) {
  check(resumed_step >= 0, "metrics: got the step {}, expected at least 0", resumed_step);
  found_ = open_history(env, path, resumed_step);
  found_.kept.clear();  // as large as the file
  last_step_ = found_.last_step;
  file_ = env.append_to(path);
}

void MetricsWriter::write(const StepMetrics& metrics) {
  check(metrics.step > last_step_, "metrics: got step {} after step {}, expected each step once and in order",
        metrics.step, last_step_);
  file_->append(metrics_line(metrics) + '\n');
  file_->flush();
  last_step_ = metrics.step;
}

}  // namespace athanor::observe
