#include "athanor/run/report.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/median.h"
#include "athanor/observe/log.h"
#include "athanor/observe/report.h"

namespace athanor::run {
namespace {

void put(Report& report, const char* key, const ChannelValues& values) {
  for (const auto& [name, value] : values) report[key][name] = value;
}

Report entry_of(const Decision& decision) {
  Report entry;
  entry["step"] = decision.step;
  if (const auto* skip = std::get_if<SkipBatches>(&decision.what)) {
    entry["decision"] = "skip_batches";
    entry["batches"] = skip->batches;
  } else if (const auto* data = std::get_if<QuarantineData>(&decision.what)) {
    entry["decision"] = "quarantine";
    entry["channel"] = data->channel;
    entry["file"] = data->file;
    entry["offset"] = data->offset;
  } else if (const auto* set = std::get_if<SetSetting>(&decision.what)) {
    entry["decision"] = "set";
    entry["key"] = set->key;
    entry["value"] = set->value;
    entry["was"] = set->was;
  } else {
    const auto& change = std::get<LayoutChange>(decision.what);
    entry["decision"] = "layout";
    entry["from"] = change.from;
    entry["to"] = change.to;
  }
  entry["why"] = decision.why;
  return entry;
}

}  // namespace

void TrainReport::set_rates(std::vector<double> rates, double flops_per_token, double peak_flops) {
  if (rates.empty()) return;
  tokens_per_second = median(std::move(rates));
  if (peak_flops > 0.0) mfu = tokens_per_second * flops_per_token / peak_flops;
}

void TrainReport::set_validation(const Evaluation& evaluation) {
  valid_loss_last = evaluation.loss;
  channel_loss_last.clear();
  for (const ChannelScore& score : evaluation.channels)
    if (score.tokens > 0) channel_loss_last.emplace_back(score.name, score.loss);
}

void TrainReport::end_phase(const std::string& name) {
  std::erase_if(
      phases, [&](const PhaseLosses& phase) { return phase.name == name; });  // of a process that was killed
  phases.push_back({.name = name,
                    .last_step = steps,
                    .train_loss = train_loss_last,
                    .valid_loss = valid_loss_last,
                    .channel_loss = channel_loss_last});
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
  report["reason"] = reason;
  report["host"] = host;
  report["pid"] = pid;
  report["time"] = time;
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
  for (const PhaseLosses& phase : phases) {
    Report entry;
    entry["name"] = phase.name;
    entry["last_step"] = phase.last_step;
    entry["train_loss"] = phase.train_loss;
    entry["valid_loss"] = phase.valid_loss;
    put(entry, "channel_loss", phase.channel_loss);
    report["phases"].push_back(std::move(entry));
  }
  for (const Decision& decision : decisions) report["decisions"].push_back(entry_of(decision));
  report["tokens_per_second"] = tokens_per_second;
  report["mfu"] = mfu;
  report["seconds"] = seconds;
  report["time_to_first_step_seconds"] = first_step_seconds;
  report["peak_bytes"] = peak_bytes;
  report["planned_bytes"] = planned_bytes;
  report["resident_bytes"] = resident_bytes;
  report["digest"] = digest;
  if (incidents) {
    report["goodput"] = goodput;
    incidents->put_into(report);
  }
  if (failed_saves > 0) report["failed_saves"] = failed_saves;
  for (const auto& [what, times] : dropped) report["dropped"][what] = times;
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
  const auto old = parse(json);
  if (!old) return;  // cut off or no report: the run continues without the old values
  train_loss_last = old->train_loss_last;
  valid_loss_first = old->valid_loss_first;
  valid_loss_last = old->valid_loss_last;
  channel_loss_first = old->channel_loss_first;
  channel_loss_last = old->channel_loss_last;
  phases = old->phases;
  tokens_per_second = old->tokens_per_second;
  mfu = old->mfu;
}

namespace {

std::string text_of(const nlohmann::ordered_json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

void number_of(const nlohmann::ordered_json& object, const char* key, auto& value) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_number()) found->get_to(value);
}

std::vector<Decision> decisions_of(const nlohmann::ordered_json& report) {
  std::vector<Decision> decisions;
  try {
    if (report.contains("decisions"))
      for (const auto& entry : report["decisions"])
        decisions.push_back(parse_decision(entry.dump(), "report"));
  } catch (const Error&) {  // of a later version
  }
  return decisions;
}

void losses_of(const nlohmann::ordered_json& object, const char* key, ChannelValues& values) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_object()) return;
  for (const auto& [name, value] : found->items())
    if (value.is_number()) values.emplace_back(name, value.get<double>());
}

}  // namespace

std::optional<TrainReport> TrainReport::parse(const std::string& json) {
  const auto old = nlohmann::ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!old.is_object() || !old.contains("status")) return std::nullopt;
  TrainReport report;
  const auto number = [&](const char* key, auto& value) { number_of(old, key, value); };
  const auto text = [&](const char* key, std::string& value) { value = text_of(old, key); };
  const auto losses = [&](const char* key, ChannelValues& values) { losses_of(old, key, values); };
  text("run", report.run_folder);
  text("status", report.status);
  text("reason", report.reason);
  text("host", report.host);
  number("pid", report.pid);
  text("time", report.time);
  number("ranks", report.ranks);
  number("params", report.params);
  number("tokens", report.tokens);
  number("steps", report.steps);
  number("resumed_step", report.resumed_step);
  number("train_loss_last", report.train_loss_last);
  number("valid_loss_first", report.valid_loss_first);
  number("valid_loss_last", report.valid_loss_last);
  losses("channel_loss_first", report.channel_loss_first);
  losses("channel_loss_last", report.channel_loss_last);
  if (const auto phases = old.find("phases"); phases != old.end() && phases->is_array())
    for (const auto& entry : *phases) {
      if (!entry.is_object()) continue;
      PhaseLosses& phase = report.phases.emplace_back();
      phase.name = text_of(entry, "name");
      number_of(entry, "last_step", phase.last_step);
      number_of(entry, "train_loss", phase.train_loss);
      number_of(entry, "valid_loss", phase.valid_loss);
      losses_of(entry, "channel_loss", phase.channel_loss);
    }
  report.decisions = decisions_of(old);
  number("tokens_per_second", report.tokens_per_second);
  number("mfu", report.mfu);
  number("seconds", report.seconds);
  number("time_to_first_step_seconds", report.first_step_seconds);
  number("peak_bytes", report.peak_bytes);
  number("planned_bytes", report.planned_bytes);
  number("resident_bytes", report.resident_bytes);
  text("digest", report.digest);
  number("failed_saves", report.failed_saves);
  if (const auto dropped = old.find("dropped"); dropped != old.end() && dropped->is_object())
    for (const auto& [what, times] : dropped->items())
      if (times.is_number_integer()) report.dropped.emplace_back(what, times.get<int64_t>());
  if (const auto left_out = old.find("left_out"); left_out != old.end() && left_out->is_array())
    for (const auto& entry : *left_out)
      if (entry.is_object())
        report.left_out.push_back(
            {.channel = text_of(entry, "channel"),
             .what = {.file = text_of(entry, "file"), .reason = text_of(entry, "reason")}});
  return report;
}

void TrainReport::set_writer() {
  host = host_name();
  pid = ::getpid();
  time = utc_time(wall_seconds());
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

}  // namespace athanor::run
