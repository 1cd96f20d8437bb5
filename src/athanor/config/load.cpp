#include "athanor/config/load.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include <toml++/toml.h>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/base/nearest.h"
#include "athanor/config/doubtful.h"
#include "athanor/config/effects.h"
#include "athanor/config/not_toml.h"
#include "athanor/config/phases.h"
#include "athanor/config/presets.h"
#include "athanor/config/reader.h"
#include "athanor/config/refuse.h"
#include "athanor/config/validate.h"
#include "athanor/config/validate_parts.h"

namespace athanor::config {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{16} << 20;

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string as_toml_string(std::string_view word) {
  std::string quoted = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

// {v = value}, where the value is TOML or else a bare word. A date is a bare word too: no setting is a date.
toml::table parse_value(std::string_view value, const std::string& where) {
  std::string reason = "something behind it";
  try {
    toml::table parsed = toml::parse("v = " + std::string(value), std::string_view());
    const toml::node* node = parsed.get("v");
    const bool date = node != nullptr && (node->is_date() || node->is_time() || node->is_date_time());
    if (parsed.size() == 1 && node != nullptr && !date) return parsed;
    if (date) return toml::parse("v = " + as_toml_string(value), std::string_view());
  } catch (const toml::parse_error& error) {
    reason = std::string(error.description());
  }
  const bool bare_word =
      value.empty() || std::string_view("\"'[{").find(value.front()) == std::string_view::npos;
  try {
    if (bare_word) return toml::parse("v = " + as_toml_string(value), std::string_view());
  } catch (const toml::parse_error& error) {
    reason = std::string(error.description());
  }
  throw ConfigError(
      fmt::format("{}: got a value that is not TOML ({}), expected a number, string, array or table", where,
                  printable(reason)),
      "put the whole override into single quotes on the command line");
}

void apply_override(const std::string& text, Config& config) {
  const std::string where = "--set " + printable(text);
  const size_t equals = text.find('=');
  if (equals == std::string::npos)
    throw ConfigError(fmt::format("{}: got no '=', expected section.key=value", where));
  const std::string_view path = trim(std::string_view(text).substr(0, equals));
  const toml::table value = parse_value(trim(std::string_view(text).substr(equals + 1)), where);
  ConfigReader reader(config, Origin::Kind::command_line, where);
  reader.read_path(path, *value.get("v"));
}

}  // namespace

void override_setting(Config& config, const std::string& setting) {
  apply_override(setting, config);
}

namespace {

// Relative paths are anchored once, here, so that a copy of the settings means the same from any folder.
void anchor_paths(Config& config) {
  if (config.folder.empty()) return;
  const auto anchor = [&](std::string& path) {
    if (!path.empty() && path != "-")
      path = (std::filesystem::path(config.folder) / path).lexically_normal().string();
  };
  for (const auto& field : config_fields())
    if (field.traits.is_path) anchor(*std::get<std::string*>(field.slot(config)));
  for (const auto& field : channel_fields())
    for (auto& channel : config.data.channels)
      if (field.traits.is_path) anchor(*std::get<std::string*>(field.slot(channel)));
  if (config.parallel.schedule.ends_with(".csv")) anchor(config.parallel.schedule);
}

// A phase's keys are anchored where the run's are.
void anchor_phases(Config& config) {
  for (Phase& phase : config.phases) {
    Config part;
    part.folder = config.folder;
    for (const auto& field : config_fields())
      if (const auto setting = phase.settings.find(field.key()); setting != phase.settings.end())
        assign(field.slot(part), setting->second);
    anchor_paths(part);
    for (const auto& field : config_fields())
      if (const auto setting = phase.settings.find(field.key()); setting != phase.settings.end())
        setting->second = value_of(field.slot(part));
  }
}

void read_schedule(Env& env, const std::string& schedule, std::string& csv) {
  if (!schedule.ends_with(".csv")) return;
  try {
    csv = env.read_text(schedule, kMaxFileBytes);
  } catch (const Failure& error) {
    throw ConfigError(fmt::format("parallel.schedule: {}", error.what()),
                      "athanor schedule NAME --csv FILE writes one");
  }
}

void read_schedules(Env& env, Config& config) {
  read_schedule(env, config.parallel.schedule, config.parallel.schedule_csv);
  for (size_t i = 0; i < config.phases.size(); ++i) {
    Phase& phase = config.phases[i];
    const auto setting = phase.settings.find("parallel.schedule");
    if (setting == phase.settings.end()) continue;
    with_phase_named(config, i,
                     [&] { read_schedule(env, std::get<std::string>(setting->second), phase.schedule_csv); });
  }
}

// Without train.steps the run is as long as its phases.
void resolve_steps(Config& config) {
  const std::string key = "train.steps";
  if (config.phases.empty() || config.origins.contains(key)) return;
  config.train.steps = steps_of_phases(config);
  config.origins[key] = {Origin::Kind::derived, "derived: the steps of the phases"};
}

// Warnings of a phase name it; what holds for several is said once.
std::vector<std::string> doubts(const Config& config) {
  std::vector<std::string> lines;
  std::set<std::string> said;
  for (const PhaseConfig& phase : phases_of(config))
    for (const std::string& line : doubtful_settings(phase.config))
      if (said.insert(line).second)
        lines.push_back(phase.name.empty() ? line : fmt::format("phase '{}': {}", phase.name, line));
  return lines;
}

InitSource read_model_config(const Config& config, const ConfigSources& sources) {
  try {
    return sources.model_config(config.model.config);
  } catch (const Failure& error) {
    refuse(config, "model.config", error.hint(), "{}", error.what());
  }
}

// What fresh weights know, which is nothing, a few held-out tokens tell as well as many.
void resolve_first_eval(Config& config) {
  constexpr int64_t kOfTrainedWeights = 4096;
  const std::string key = "train.initial_eval_tokens";
  if (config.train.init_from.empty() || config.origins.contains(key) || !has_validation(config)) return;
  config.train.initial_eval_tokens = kOfTrainedWeights;
  config.origins[key] = {Origin::Kind::derived, "derived: train.init_from has been trained"};
}

// Where every channel has text of its own to hold out, nothing is left for a fraction to say.
void resolve_valid_fraction(Config& config) {
  const std::string key = "data.valid_fraction";
  std::vector<ChannelConfig> channels = config.data.channels;
  for (const Phase& phase : config.phases)
    if (const auto of_phase = phase.settings.find("data.channels"); of_phase != phase.settings.end()) {
      const auto& more = std::get<std::vector<ChannelConfig>>(of_phase->second);
      channels.insert(channels.end(), more.begin(), more.end());
    }
  const bool all =
      !channels.empty() && std::all_of(channels.begin(), channels.end(),
                                       [](const auto& channel) { return !channel.valid_path.empty(); });
  if (!all || config.data.valid_fraction == 0) return;
  if (config.origins.contains(key))
    throw ConfigError(fmt::format("{}: got {}, expected 0 or none where every channel has a valid_path", key,
                                  config.data.valid_fraction),
                      "valid_path replaces the fraction: remove one of the two");
  config.data.valid_fraction = 0;
  config.origins[key] = {Origin::Kind::derived, "derived: every channel has a valid_path"};
}

void resolve_compression_warmup(Config& config) {
  const std::string key = "compression.warmup_steps";
  const int64_t steps = compression_warmup(config.compression.method, config.train.steps);
  if (steps == 0 || config.origins.contains(key)) return;
  config.compression.warmup_steps = steps;
  config.origins[key] = {Origin::Kind::derived, "derived: what compression.method wants of train.steps"};
}

// A run is no config, but it holds the one that it was trained with.
std::string path_hint(Env& env, const std::string& path) {
  const std::string resolved = join_path(path, "config.resolved.toml");
  if (env.is_folder(path) && env.exists(resolved)) return fmt::format("did you mean '{}'?", resolved);
  std::vector<std::string> configs;
  const std::string folder = parent_folder(path);
  if (env.is_folder(folder))
    for (const std::string& name : env.list(folder))
      if (name.ends_with(".toml")) configs.push_back(name);
  const std::string nearest = nearest_name(std::filesystem::path(path).filename().string(), configs);
  if (!nearest.empty())
    return fmt::format("did you mean '{}'?",
                       printable((std::filesystem::path(path).parent_path() / nearest).string()));
  return "expected the path of a TOML file; 'athanor init FILE.toml' writes one";
}

}  // namespace

int64_t compression_warmup(const std::string& kind, int64_t steps) {
  const int64_t share = kind == "topk" ? 2 : kind == "onebit-adam" ? 3 : 0;
  return share == 0 ? 0 : std::max<int64_t>(1, steps / share);
}

Config parse_config(std::string_view text, const std::string& name, const std::string& folder,
                    std::span<const std::string> overrides, const ConfigSources& sources) {
  Config config;
  if (!folder.empty()) config.folder = std::filesystem::absolute(folder).lexically_normal().string();
  try {
    const toml::table root = toml::parse(text, name);
    ConfigReader(config, Origin::Kind::file, printable(name)).read(root);
  } catch (const toml::parse_error& error) {
    throw ConfigError(fmt::format("{}:{}: not TOML: {}", printable(name), error.source().begin.line,
                                  printable(error.description())),
                      not_toml_hint(text, error.description(), error.source().begin.line));
  }
  for (const auto& override_text : overrides) apply_override(override_text, config);
  resolve_steps(config);
  validate_limits(config);
  anchor_paths(config);
  anchor_phases(config);
  if (sources.model_config && !config.model.config.empty())
    take_model_config(config, read_model_config(config, sources));
  if (sources.init_from && !config.train.init_from.empty()) take_source(config, sources.init_from(config));
  resolve_model(config);
  resolve_first_eval(config);
  resolve_valid_fraction(config);
  resolve_compression_warmup(config);
  validate(config);
  return config;
}

Config load_config(Env& env, const std::string& path, std::span<const std::string> overrides,
                   const ConfigSources& sources) {
  std::string text;
  try {
    text = env.read_text(path, kMaxFileBytes);
  } catch (const IoError& error) {
    const bool wrong_path = error.code() == ENOENT || error.code() == EISDIR || error.code() == ENOTDIR ||
                            error.code() == EACCES || error.code() == ENAMETOOLONG;
    if (!wrong_path) throw;
    throw ConfigError(fmt::format("config file: {}", error.what()), path_hint(env, path));
  } catch (const Error& error) {
    throw ConfigError(fmt::format("config file: {}", error.what()), path_hint(env, path));
  }
  Config config = parse_config(text, path, parent_folder(path), overrides, sources);
  const auto file_alone = [&] { return parse_config(text, path, parent_folder(path), {}, sources); };
  for (std::string& line : check_effects(config, file_alone)) config.warnings.push_back(std::move(line));
  read_schedules(env, config);
  for (std::string& line : doubts(config)) config.warnings.push_back(std::move(line));
  return config;
}

}  // namespace athanor::config
