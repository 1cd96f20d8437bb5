#include "athanor/observe/metrics.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "athanor/base/check.h"

namespace athanor {
namespace {

using nlohmann::json;

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

double number_at(const json& object, const char* key) {
  const json& value = object.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

ChannelValues channels_at(const nlohmann::ordered_json& object, const char* key) {
  ChannelValues values;
  if (!object.contains(key)) return values;
  for (const auto& [name, value] : object.at(key).items())
    values.emplace_back(name,
                        value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
  return values;
}

}  // namespace

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), result.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

namespace {

std::string expert_fields(const ExpertMetrics& experts) {
  std::string layers;
  for (const double value : experts.layers) layers += (layers.empty() ? "" : ",") + json_number(value);
  return fmt::format(
      ",\"load_imbalance\":{},\"load_imbalance_by_layer\":[{}],\"token_drop_rate\":{},\"router_aux_loss\":{},"
      "\"router_z_loss\":{}",
      json_number(experts.max_over_mean), layers, json_number(experts.drop_share),
      json_number(experts.aux_loss), json_number(experts.z_loss));
}

std::optional<ExpertMetrics> experts_at(const json& object) {
  if (!object.contains("load_imbalance")) return std::nullopt;
  ExpertMetrics experts;
  experts.max_over_mean = number_at(object, "load_imbalance");
  experts.layers = object.at("load_imbalance_by_layer").get<std::vector<double>>();
  experts.drop_share = number_at(object, "token_drop_rate");
  experts.aux_loss = number_at(object, "router_aux_loss");
  experts.z_loss = number_at(object, "router_z_loss");
  return experts;
}

}  // namespace

std::string metrics_line(const StepMetrics& m) {
  std::string line = fmt::format("{{\"step\":{},\"tokens\":{},\"loss\":{},\"channel_loss\":{},", m.step,
                                 m.tokens, json_number(m.loss), json_object(m.channel_loss));
  line += fmt::format("\"grad_norm\":{},\"lr\":{},\"loss_scale\":{},", json_number(m.grad_norm),
                      json_number(m.lr), json_number(m.loss_scale));
  line += fmt::format("\"tokens_per_second\":{},\"mfu\":{},", json_number(m.tokens_per_second),
                      json_number(m.mfu));
  line += fmt::format("\"step_seconds\":{},\"data_seconds\":{},\"comm_seconds\":{},",
                      json_number(m.step_seconds), json_number(m.data_seconds), json_number(m.comm_seconds));
  line += fmt::format("\"peak_bytes\":{},\"world_size\":{}", m.peak_bytes, m.world_size);
  if (m.valid_loss)
    line += fmt::format(",\"valid_loss\":{},\"valid_channel_loss\":{}", json_number(*m.valid_loss),
                        json_object(m.valid_channel_loss));
  if (m.experts) line += expert_fields(*m.experts);
  return line + '}';
}

StepMetrics parse_metrics_line(std::string_view line) {
  try {
    const auto ordered = nlohmann::ordered_json::parse(line);
    const json object = ordered;
    StepMetrics m;
    m.step = object.at("step").get<int64_t>();
    m.tokens = object.at("tokens").get<int64_t>();
    m.loss = number_at(object, "loss");
    m.channel_loss = channels_at(ordered, "channel_loss");
    m.grad_norm = number_at(object, "grad_norm");
    m.lr = number_at(object, "lr");
    m.loss_scale = number_at(object, "loss_scale");
    m.tokens_per_second = number_at(object, "tokens_per_second");
    m.mfu = number_at(object, "mfu");
    m.step_seconds = number_at(object, "step_seconds");
    m.data_seconds = number_at(object, "data_seconds");
    m.comm_seconds = number_at(object, "comm_seconds");
    m.peak_bytes = object.at("peak_bytes").get<int64_t>();
    m.world_size = object.at("world_size").get<int64_t>();
    if (object.contains("valid_loss")) m.valid_loss = number_at(object, "valid_loss");
    m.valid_channel_loss = channels_at(ordered, "valid_channel_loss");
    m.experts = experts_at(object);
    return m;
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

}  // namespace athanor
