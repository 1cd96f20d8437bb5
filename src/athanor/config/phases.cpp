#include "athanor/config/phases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/config/fields.h"

namespace athanor::config {
namespace {

// A table of which a phase may set every key but some.
struct OpenTable {
  const char* section;
  std::vector<std::string_view> closed;
};

const std::vector<OpenTable>& open_tables() {
  static const std::vector<OpenTable> tables = {
      // One model reads every token, and losses of all phases are of the same text.
      {"data", {"data.tokenizer", "data.valid_fraction"}},
      {"optimizer", {"optimizer.name"}},  // its state goes on
      {"schedule", {}},
      {"parallel", {"parallel.reduce"}},  // the order of sums is the run's
  };
  return tables;
}

constexpr std::array<std::string_view, 4> kOpenKeys = {"train.global_batch_size", "train.micro_batch_size",
                                                       "model.rope_*", "model.attention_pattern"};

bool is_open(std::string_view open, std::string_view key) {
  return open.ends_with('*') ? key.starts_with(open.substr(0, open.size() - 1)) : key == open;
}

bool is_of_schedule(std::string_view key) {
  return key.starts_with("schedule.") || key == "optimizer.lr";
}

bool names_schedule(const Phase& phase) {
  return std::any_of(phase.settings.begin(), phase.settings.end(),
                     [](const auto& setting) { return is_of_schedule(setting.first); });
}

const Field<Config>& field_of(std::string_view key) {
  const size_t dot = key.find('.');
  const Field<Config>* field =
      dot == std::string_view::npos ? nullptr : find_field(key.substr(0, dot), key.substr(dot + 1));
  check(field != nullptr, "a phase: got the key '{}', expected one of config_fields()", key);
  return *field;
}

void set(Config& of_phase, const Config& run, size_t index, std::string_view key, const SettingValue& value) {
  assign(field_of(key).slot(of_phase), value);
  const auto origin = run.origins.find(phase_origin(index, key));
  of_phase.origins[std::string(key)] =
      origin != run.origins.end() ? origin->second : Origin{Origin::Kind::file, phase_label(run, index)};
}

}  // namespace

std::vector<PhaseConfig> phases_of(const Config& config) {
  if (config.phases.empty()) {
    PhaseConfig whole{.name = "", .first_step = 1, .last_step = config.train.steps, .config = config};
    // A phase's own config says already how long its schedule is.
    if (config.schedule.steps == 0) whole.config.schedule.steps = config.train.steps;
    return {whole};
  }
  Config run = config;
  run.phases.clear();
  std::erase_if(run.origins, [](const auto& origin) { return origin.first.starts_with("phase."); });
  std::vector<PhaseConfig> phases;
  size_t named = 0;  // the phase that the schedule began in
  int64_t first_step = 1, schedule_step = 1;
  for (size_t i = 0; i < config.phases.size(); ++i) {
    const Phase& phase = config.phases[i];
    const int64_t last_step = first_step + phase.steps - 1;
    PhaseConfig whole{.name = phase.name, .first_step = first_step, .last_step = last_step, .config = run};
    if (names_schedule(phase)) {
      named = i;
      schedule_step = first_step;
    }
    for (const auto& [key, value] : config.phases[named].settings)
      if (is_of_schedule(key)) set(whole.config, config, named, key, value);
    for (const auto& [key, value] : phase.settings)
      if (!is_of_schedule(key)) set(whole.config, config, i, key, value);
    if (phase.settings.contains("parallel.schedule")) whole.config.parallel.schedule_csv = phase.schedule_csv;
    whole.config.schedule.first_step = schedule_step;
    phases.push_back(std::move(whole));
    first_step = last_step + 1;
  }
  int64_t end = first_step;  // of the schedule: the step after its last
  for (auto phase = phases.rbegin(); phase != phases.rend(); ++phase) {
    ScheduleConfig& schedule = phase->config.schedule;
    schedule.steps = end - schedule.first_step;
    if (phase->first_step == schedule.first_step) end = schedule.first_step;
  }
  return phases;
}

ModelConfig model_at(const Config& config, int64_t step) {
  const std::vector<PhaseConfig> phases = phases_of(config);
  const auto phase = std::find_if(phases.begin(), phases.end(),
                                  [&](const PhaseConfig& one) { return step <= one.last_step; });
  return (phase == phases.end() ? phases.back() : *phase).config.model;
}

bool phase_may_set(std::string_view key) {
  if (std::any_of(kOpenKeys.begin(), kOpenKeys.end(),
                  [&](std::string_view open) { return is_open(open, key); }))
    return true;
  const std::string_view section = key.substr(0, key.find('.'));
  return std::any_of(open_tables().begin(), open_tables().end(), [&](const OpenTable& table) {
    return table.section == section &&
           std::find(table.closed.begin(), table.closed.end(), key) == table.closed.end();
  });
}

std::string phase_settings_text() {
  std::vector<std::string> parts;
  for (const OpenTable& table : open_tables())
    parts.push_back(
        fmt::format("{}.*{}", table.section,
                    table.closed.empty() ? "" : fmt::format(" (not {})", fmt::join(table.closed, ", "))));
  for (const std::string_view key : kOpenKeys) parts.emplace_back(key);
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string phase_label(const Config& config, size_t index) {
  const std::string& name = config.phases.at(index).name;
  return name.empty() ? fmt::format("phase {} of {}", index + 1, config.phases.size())
                      : fmt::format("phase '{}'", printable(name));
}

std::string phase_origin(size_t index, std::string_view key) {
  return fmt::format("phase.{}.{}", index, key);
}

}  // namespace athanor::config
