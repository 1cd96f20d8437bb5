#include "athanor/train/report.h"

#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "athanor/observe/report.h"

namespace athanor {
namespace {

void put(Report& report, const char* key, const ChannelValues& values) {
  for (const auto& [name, value] : values) report[key][name] = value;
}

}  // namespace

void TrainReport::set_rates(std::vector<double> rates, double flops_per_token, double peak_flops) {
  if (rates.empty()) return;
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  tokens_per_second = *middle;
  if (peak_flops > 0.0) mfu = tokens_per_second * flops_per_token / peak_flops;
}

void TrainReport::set_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  resident_bytes = int64_t{usage.ru_maxrss} * 1024;
}

std::string TrainReport::to_json() const {
  Report report;
  report["run"] = run_folder;
  report["status"] = status;
  report["ranks"] = ranks;
  report["params"] = params;
  report["tokens"] = tokens;
  report["steps"] = steps;
  report["resumed_step"] = resumed_step;
  report["train_loss_last"] = train_loss_last;
  report["valid_loss_first"] = valid_loss_first;
  report["valid_loss_last"] = valid_loss_last;
  put(report, "channel_loss_first", channel_loss_first);
  put(report, "channel_loss_last", channel_loss_last);
  report["tokens_per_second"] = tokens_per_second;
  report["mfu"] = mfu;
  report["seconds"] = seconds;
  report["first_step_seconds"] = first_step_seconds;
  report["peak_bytes"] = peak_bytes;
  report["planned_bytes"] = planned_bytes;
  report["resident_bytes"] = resident_bytes;
  report["digest"] = digest;
  report["left_out_files"] = left_out.size();
  for (const Dataset::Omission& omission : left_out) {
    Report entry;
    entry["channel"] = omission.channel;
    entry["file"] = omission.what.file;
    entry["reason"] = omission.what.reason;
    report["left_out"].push_back(std::move(entry));
  }
  return report.to_json();
}

void TrainReport::restore(const std::string& json) {
  const auto old = nlohmann::ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!old.is_object()) return;  // torn or foreign: the run goes on without them
  const auto number = [&](const char* key, double& value) {
    const auto found = old.find(key);
    if (found != old.end() && found->is_number()) value = found->get<double>();
  };
  const auto losses = [&](const char* key, ChannelValues& values) {
    const auto found = old.find(key);
    if (found == old.end() || !found->is_object()) return;
    values.clear();
    for (const auto& [name, value] : found->items())
      if (value.is_number()) values.emplace_back(name, value.get<double>());
  };
  number("train_loss_last", train_loss_last);
  number("valid_loss_first", valid_loss_first);
  number("valid_loss_last", valid_loss_last);
  losses("channel_loss_first", channel_loss_first);
  losses("channel_loss_last", channel_loss_last);
  number("tokens_per_second", tokens_per_second);
  number("mfu", mfu);
}

}  // namespace athanor
