#include "athanor/observe/tensorboard.h"

#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"

namespace athanor {
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

void add_scalar(Scalars& values, const std::string& tag, double value) {
  values.emplace_back(tag, static_cast<float>(value));
}

void add_validation_scalars(Scalars& values, const StepMetrics& m) {
  if (m.valid_loss) add_scalar(values, "loss/valid", *m.valid_loss);
  for (const auto& [name, value] : m.valid_channel_loss)
    add_scalar(values, "loss_by_channel_valid/" + name, value);
}

}  // namespace

void TensorBoardWriter::write_validation(const StepMetrics& m, double wall_seconds) {
  Scalars values;
  add_validation_scalars(values, m);
  scalars(values, m.step, wall_seconds);
}

void TensorBoardWriter::write(const StepMetrics& m, double wall_seconds) {
  Scalars values;
  const auto add = [&](const std::string& tag, double value) { add_scalar(values, tag, value); };
  add("loss/train", m.loss);
  for (const auto& [name, value] : m.channel_loss) add("loss_by_channel/" + name, value);
  add_validation_scalars(values, m);
  add("optimizer/grad_norm", m.grad_norm);
  add("optimizer/lr", m.lr);
  if (m.loss_scale != 1) add("optimizer/loss_scale", m.loss_scale);
  add("speed/tokens_per_second", m.tokens_per_second);
  add("speed/step_seconds", m.step_seconds);
  add("speed/mfu_percent", 100 * m.mfu);
  if (m.experts) {
    add("experts/load_imbalance", m.experts->max_over_mean);
    add("experts/token_drop_rate", m.experts->drop_share);
    add("experts/aux_loss", m.experts->aux_loss);
    add("experts/z_loss", m.experts->z_loss);
  }
  add("memory/peak_GiB", static_cast<double>(m.peak_bytes) / (1 << 30));
  scalars(values, m.step, wall_seconds);
}

}  // namespace athanor
