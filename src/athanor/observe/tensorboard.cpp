#include "athanor/observe/tensorboard.h"

#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/observe/metric_fields.h"

namespace athanor::observe {
namespace {

static_assert(std::endian::native == std::endian::little, "records are written as the machine holds them");

template <typename Value>
std::string raw(Value value) {
  std::string bytes(sizeof(Value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(Value));
  return bytes;
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

// Protobuf fields: a key byte (number << 3 | wire type), then the value.
std::string key(int number, int wire_type) {
  return {static_cast<char>(number << 3 | wire_type)};
}
std::string double_field(int number, double value) {
  return key(number, 1) + raw(value);
}
std::string float_field(int number, float value) {
  return key(number, 5) + raw(value);
}
std::string int_field(int number, int64_t value) {
  return key(number, 0) + varint(static_cast<uint64_t>(value));
}
std::string bytes_field(int number, std::string_view value) {
  return key(number, 2) + varint(value.size()) + std::string(value);
}

std::string file_name(const TensorBoardId& id) {
  std::string host = id.host;
  for (char& c : host)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.') c = '_';
  return fmt::format("events.out.tfevents.{:010}.{}.{}", static_cast<int64_t>(id.wall_seconds), host, id.pid);
}

}  // namespace

uint32_t masked_crc32c(std::string_view data) {
  const uint32_t crc = crc32c(data.data(), data.size());
  return std::rotr(crc, 15) + 0xa282ead8u;
}

TensorBoardWriter::TensorBoardWriter(Env& env, const std::string& folder, const TensorBoardId& id,
                                     int64_t resumed_step) {
  // A second run within the same second must not overwrite the first one's file.
  const std::string name = file_name(id);
  int number = 0;
  do path_ = join_path(folder, fmt::format("{}.{}", name, number++));
  while (env.exists(path_));
  file_ = env.create(path_);
  record(double_field(1, id.wall_seconds) + bytes_field(3, "brain.Event:2"));
  constexpr int kStart = 1;  // SessionLog.status: what follows replaces any later step written before
  if (resumed_step > 0)
    record(double_field(1, id.wall_seconds) + int_field(2, resumed_step + 1) +
           bytes_field(7, int_field(1, kStart)));
  try {
    flush();
  } catch (const IoError&) {  // who tries again gets a file of its own
    file_.reset();
    env.remove_all(path_);
    throw;
  }
}

void TensorBoardWriter::record(std::string_view data) {
  const std::string length = raw<uint64_t>(data.size());
  file_->append(length);
  file_->append(raw(masked_crc32c(length)));
  file_->append(data);
  file_->append(raw(masked_crc32c(data)));
}

void TensorBoardWriter::scalars(const std::vector<std::pair<std::string, float>>& values, int64_t step,
                                double wall_seconds) {
  std::string summary;
  for (const auto& [tag, value] : values)
    summary += bytes_field(1, bytes_field(1, tag) + float_field(2, value));
  record(double_field(1, wall_seconds) + int_field(2, step) + bytes_field(5, summary));
}

// A tensor of one string, which the plug-in for texts shows.
void TensorBoardWriter::text(const std::string& tag, const std::string& markdown, int64_t step,
                             double wall_seconds) {
  constexpr int kString = 7;  // DT_STRING
  const std::string tensor =
      int_field(1, kString) + bytes_field(2, bytes_field(2, int_field(1, 1))) + bytes_field(8, markdown);
  const std::string metadata = bytes_field(1, bytes_field(1, "text"));
  record(double_field(1, wall_seconds) + int_field(2, step) +
         bytes_field(
             5, bytes_field(1, bytes_field(1, tag) + bytes_field(8, tensor) + bytes_field(9, metadata))));
}

namespace {

using Scalars = std::vector<std::pair<std::string, float>>;

struct Charted {
  const MetricField& field;
  Scalars& scalars;

  void add(const std::string& tag, double value) const {
    if (value != field.chart_unless)
      scalars.emplace_back(tag, static_cast<float>(value * field.chart_factor));
  }
  void operator()(const int64_t* value) const { add(std::string(field.chart), static_cast<double>(*value)); }
  void operator()(const double* value) const { add(std::string(field.chart), *value); }
  void operator()(const ChannelValues* values) const {
    for (const auto& [name, value] : *values) add(fmt::format("{}/{}", field.chart, name), value);
  }
  void operator()(const std::vector<double>*) const {}  // of many layers: too many curves
};

void add_scalar(Scalars& scalars, const MetricField& field, StepMetrics& metrics) {
  if (!field.chart.empty() && field.is_in(metrics)) std::visit(Charted{field, scalars}, field.slot(metrics));
}

}  // namespace

void TensorBoardWriter::write_validation(StepMetrics metrics, double wall_seconds) {
  Scalars values;
  for (const MetricField& field : metric_fields())
    if (field.name.starts_with("valid_")) add_scalar(values, field, metrics);
  scalars(values, metrics.step, wall_seconds);
}

void TensorBoardWriter::write(StepMetrics metrics, double wall_seconds) {
  Scalars values;
  for (const MetricField& field : metric_fields()) add_scalar(values, field, metrics);
  scalars(values, metrics.step, wall_seconds);
}

}  // namespace athanor::observe
