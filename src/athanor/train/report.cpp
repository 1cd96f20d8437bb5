#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "athanor/train/trainer.h"

namespace athanor {
namespace {

nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json object(const ChannelValues& values) {
  auto json = nlohmann::ordered_json::object();
  for (const auto& [name, value] : values) json[name] = number(value);
  return json;
}

}  // namespace

std::string to_json(const TrainReport& r) {
  return nlohmann::ordered_json{{"run", r.run_folder},
                                {"status", r.status},
                                {"interrupted", r.interrupted},
                                {"ranks", r.ranks},
                                {"params", r.params},
                                {"tokens", r.tokens},
                                {"steps", r.steps},
                                {"resumed_step", r.resumed_step},
                                {"train_loss_last", number(r.train_loss_last)},
                                {"valid_loss_first", number(r.valid_loss_first)},
                                {"valid_loss_last", number(r.valid_loss_last)},
                                {"channel_loss_first", object(r.channel_loss_first)},
                                {"channel_loss_last", object(r.channel_loss_last)},
                                {"tokens_per_second", number(r.tokens_per_second)},
                                {"mfu", number(r.mfu)},
                                {"seconds", number(r.seconds)},
                                {"first_step_seconds", number(r.first_step_seconds)},
                                {"peak_bytes", r.peak_bytes},
                                {"planned_bytes", r.planned_bytes},
                                {"resident_bytes", r.resident_bytes},
                                {"digest", r.digest}}
      .dump(2);
}

void restore_first_losses(const std::string& json, TrainReport& report) {
  const auto old = nlohmann::ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!old.is_object()) return;  // torn or foreign: the run goes on without them
  const auto loss = old.find("valid_loss_first");
  if (loss != old.end() && loss->is_number()) report.valid_loss_first = loss->get<double>();
  const auto channels = old.find("channel_loss_first");
  if (channels == old.end() || !channels->is_object()) return;
  for (const auto& [name, value] : channels->items())
    if (value.is_number()) report.channel_loss_first.emplace_back(name, value.get<double>());
}

}  // namespace athanor
