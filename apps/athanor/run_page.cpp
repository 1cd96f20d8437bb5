#include "run_page.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "apps/command_line/print.h"
#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/observe/html/page.h"
#include "athanor/observe/html/series.h"
#include "athanor/observe/html/text.h"
#include "athanor/observe/html/timeline.h"
#include "athanor/run/begun_phases.h"
#include "athanor/run/report.h"
#include "athanor/run/run_folder.h"
#include "athanor/run/run_history.h"

namespace athanor::apps {
namespace {

namespace html = observe::html;

// Lines of a file of any length; a last line without its end is still being written, and is left out.
void for_each_line(Env& env, const std::string& path, const std::function<void(std::string_view)>& take) {
  constexpr uint64_t kBlock = 1 << 20;
  const auto file = env.open(path);
  const uint64_t size_bytes = file->size_bytes();
  std::string held;
  for (uint64_t at = 0; at < size_bytes;) {
    const auto part = static_cast<size_t>(std::min(kBlock, size_bytes - at));
    const size_t before = held.size();
    held.resize(before + part);
    file->read(at, held.data() + before, part);
    at += part;
    size_t first = 0;
    for (size_t end = 0; (end = held.find('\n', first)) != std::string::npos; first = end + 1)
      if (end > first) take(std::string_view(held).substr(first, end - first));
    held.erase(0, first);
  }
}

int64_t read_lines(Env& env, const std::string& path, bool is_ordered,
                   const std::function<void(const StepMetrics&)>& take) {
  int64_t damaged = 0, last_step = 0;
  if (!env.exists(path)) return 0;
  for_each_line(env, path, [&](std::string_view line) {
    try {
      const StepMetrics metrics = parse_metrics_line(line);
      check(!is_ordered || metrics.step > last_step, "a step is not after the one before it");
      last_step = metrics.step;
      take(metrics);
    } catch (const Error&) {
      ++damaged;
    }
  });
  return damaged;
}

std::string text_of(Env& env, const std::string& path) {
  return env.exists(path) ? env.read_text(path) : "";
}

std::string said(const Json& json, const char* key) {
  if (!json.is_object() || !json.contains(key) || json[key].is_null()) return "";
  if (json[key].is_number_float()) return html::short_number(json[key].get<double>());
  return json[key].is_string() ? json[key].get<std::string>() : json[key].dump();
}

double number(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) && json[key].is_number() ? json[key].get<double>()
                                                                         : std::nan("");
}

void add(html::Rows& rows, const char* name, const std::string& value) {
  if (!value.empty()) rows.emplace_back(name, value);
}

std::string bytes(double value) {
  return value > 0 ? human_bytes(value) : "";
}

std::string trimmed(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  text.erase(0, text.find_first_not_of(' '));
  return text;
}

// The settings that somebody chose, of config.resolved.toml: "key = value  # meaning  origin". A value of several lines, an
// array, ends with the line of its bracket.
html::Rows chosen_settings(const std::string& text) {
  html::Rows rows;
  std::string section;
  bool is_chosen = false, goes_on = false;
  for (size_t first = 0; first < text.size();) {
    const size_t end = std::min(text.find('\n', first), text.size());
    const std::string line = text.substr(first, end - first);
    first = end + 1;
    const std::string value_of = trimmed(line.substr(0, line.find("  # ")));
    if (goes_on) {
      if (is_chosen) rows.back().second += " " + value_of;
      goes_on = !value_of.ends_with(']');
      continue;
    }
    if (line.starts_with('[')) section = line.substr(0, line.find(" #"));
    const size_t equals = value_of.find(" = ");
    if (line.starts_with('#') || equals == std::string::npos) continue;
    const std::string value = trimmed(value_of.substr(equals + 3));
    goes_on = value == "[";
    is_chosen = !line.ends_with(" default");
    const std::string name = section.size() > 2 ? section.substr(1, section.size() - 2) + "." : "";
    if (is_chosen) rows.emplace_back(name + trimmed(value_of.substr(0, equals)), value);
  }
  return rows;
}

std::vector<std::pair<std::string, html::Rows>> facts_of(Env& env, const std::string& folder,
                                                         const Json& report) {
  const Json machine_of = Json::parse(text_of(env, join_path(folder, "env.json")), nullptr, false);
  html::Rows machine, memory, training;
  for (const char* key : {"host", "cpu", "isa", "usable_cpus", "kernel", "version"})
    add(machine, key, said(machine_of, key));
  add(machine, "memory", bytes(number(machine_of, "memory_bytes")));
  add(memory, "planned peak of a rank", bytes(number(report, "planned_bytes")));
  add(memory, "peak of rank 0", bytes(number(report, "peak_bytes")));
  add(memory, "resident peak of rank 0", bytes(number(report, "resident_bytes")));
  if (report.is_object() && report.contains("memory_plan") && report["memory_plan"].is_object())
    for (const auto& [name, value] : report["memory_plan"].items())
      if (value.is_number()) add(memory, ("plan: " + name).c_str(), bytes(value.get<double>()));
  for (const char* key : {"ranks", "resumed_step", "valid_loss_first", "valid_loss_last", "seconds",
                          "time_to_first_step_seconds", "failed_saves", "left_out_files", "digest"})
    add(training, key, said(report, key));
  return {{"Training", training},
          {"Machine", machine},
          {"Memory", memory},
          {"Settings that are not defaults",
           chosen_settings(text_of(env, join_path(folder, "config.resolved.toml")))}};
}

std::string per_cent(double share) {
  return std::isfinite(share) ? fmt::format("{:.1f} %", 100 * share) : "–";
}

}  // namespace

RunPage make_run_page(Env& env, const std::string& folder) {
  const std::string report_text = text_of(env, join_path(folder, "report.json"));
  const Json report = Json::parse(report_text, nullptr, false);
  TrainReport restored;
  if (report.is_object()) restored.restore(report_text);

  html::Series series;
  if (std::isfinite(restored.valid_loss_first))
    series.take({.step = 0,
                 .valid_loss = restored.valid_loss_first,
                 .valid_channel_loss = restored.channel_loss_first});
  int64_t first_step = 0;
  const int64_t damaged_metrics =
      read_lines(env, join_path(folder, "metrics.jsonl"), true, [&](const StepMetrics& m) {
        if (first_step == 0) first_step = m.step;
        series.take(m);
      });
  const int64_t damaged_abandoned = read_lines(env, join_path(folder, "metrics.abandoned.jsonl"), false,
                                               [&](const StepMetrics& m) { series.take_abandoned(m); });
  const std::string events_text = text_of(env, join_path(folder, kEventsName));
  html::Page page{.title = std::filesystem::absolute(folder).lexically_normal().filename().string()};
  page.events = read_events(events_text);
  int64_t damaged_events = -static_cast<int64_t>(page.events.size());
  for (size_t first = 0, end = 0; (end = events_text.find('\n', first)) != std::string::npos; first = end + 1)
    damaged_events += end > first ? 1 : 0;

  std::vector<html::ChartMark> marks;
  if (first_step > 0)
    for (const BegunPhase& phase : begun_phases(env, folder, restored, first_step))
      if (phase.first_step <= series.last_step())
        marks.push_back({std::max(0.0, static_cast<double>(phase.first_step) - 0.5), phase.name, false});
  constexpr size_t kMostMarks = 200;
  for (const RunEvent& event : page.events)
    if (event.event == "failure" && event.step > 0 && marks.size() < kMostMarks)
      marks.push_back({static_cast<double>(event.step), "failure: " + event.cause, true});
  if (first_step > 0) page.charts = series.charts(marks);

  if (const auto status = run_status(env, folder)) {
    page.status = status->status;
    page.reason = status->reason;
  }
  page.time = said(report, "time");
  size_t num_incidents = 0;
  for (const observe::Incidents& launch : html::incidents_by_launch(page.events))
    num_incidents += launch.all().size();
  const double goodput = number(report, "goodput");
  page.figures = {{"steps", with_commas(series.last_step())},
                  {"tokens", human_count(static_cast<double>(series.tokens()))},
                  {"parameters", html::short_number(number(report, "params"))},
                  {"training loss", html::short_number(series.train_loss())},
                  {"validation loss", html::short_number(series.valid_loss())},
                  {"tokens/s", html::short_number(number(report, "tokens_per_second"))},
                  {"MFU", per_cent(number(report, "mfu"))},
                  {"goodput", per_cent(goodput)},
                  {"incidents", with_commas(static_cast<int64_t>(num_incidents))},
                  {"steps in vain", with_commas(series.num_abandoned())}};
  if (first_step == 0) page.notes.emplace_back("The run has no finished step yet.");
  const int64_t damaged = damaged_metrics + damaged_abandoned + damaged_events;
  if (damaged > 0)
    page.notes.push_back(
        fmt::format("Damaged lines left out: {} of metrics.jsonl, {} of metrics.abandoned.jsonl, {} of "
                    "events.jsonl.",
                    damaged_metrics, damaged_abandoned, damaged_events));
  page.facts = facts_of(env, folder, report);
  return {.text = html::page(page),
          .status = page.status,
          .notes = page.notes,
          .step = series.last_step(),
          .num_incidents = static_cast<int64_t>(num_incidents),
          .damaged_lines = damaged};
}

void leave_run_page(Env& env, const std::string& folder,
                    const std::function<void(const std::string& text)>& warn) {
  try {
    env.write_atomically(join_path(folder, kRunPageName), make_run_page(env, folder).text);
  } catch (const std::exception& error) {
    warn(fmt::format("{} could not be written: {}", kRunPageName, error.what()));
  }
}

}  // namespace athanor::apps
