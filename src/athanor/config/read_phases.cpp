#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "athanor/base/error.h"
#include "athanor/base/human.h"
#include "athanor/base/nearest.h"
#include "athanor/config/phases.h"
#include "athanor/config/reader.h"

namespace athanor::config {
namespace {

std::vector<std::string> names_of(const Config& config) {
  std::vector<std::string> names;
  for (const Phase& phase : config.phases) names.push_back(phase.name);
  return names;
}

// A phase that a path begins with, by name or by number, and the key behind it.
struct PhasePath {
  size_t index;
  std::string_view key;
};

// Of two names that fit, "a" and "a.b", the longer one is meant.
std::optional<PhasePath> find_phase(const Config& config, std::string_view path) {
  std::optional<PhasePath> found;
  size_t longest = 0;
  for (size_t i = 0; i < config.phases.size(); ++i) {
    const std::string& name = config.phases[i].name;
    if (name.size() < longest || !path.starts_with(name + ".")) continue;
    longest = name.size();
    found = PhasePath{i, path.substr(name.size() + 1)};
  }
  const size_t dot = std::min(path.find('.'), path.size());
  size_t index = 0;
  const auto [end, error] = std::from_chars(path.data(), path.data() + dot, index);
  const bool is_number = dot > 0 && error == std::errc() && end == path.data() + dot;
  if (!found && is_number && index < config.phases.size() && dot < path.size())
    found = PhasePath{index, path.substr(dot + 1)};
  return found;
}

}  // namespace

void ConfigReader::read_phases(const toml::node& node) {
  constexpr std::string_view kExpected = "an array of tables, each begun by [[phase]]";
  if (!node.is_array()) wrong_type(node, "phase", kExpected);
  config_.phases.clear();
  std::erase_if(config_.origins, [](const auto& origin) { return origin.first.starts_with("phase."); });
  for (const auto& element : *node.as_array()) {
    const toml::table* table = element.as_table();
    if (table == nullptr) wrong_type(element, "phase", kExpected);
    read_phase(*table);
  }
}

// The name comes first, for the messages of the other keys.
void ConfigReader::read_phase(const toml::table& table) {
  const size_t index = config_.phases.size();
  config_.phases.emplace_back();
  for (const auto& field : phase_fields()) {
    const toml::node* value = table.get(field.name);
    if (value == nullptr)
      throw ConfigError(fmt::format("{}: {}: got no {}, expected {}", where(table),
                                    phase_label(config_, index), field.name, field.note));
    read_phase_key(index, field.name, *value);
  }
  for (const auto& [key, value] : table)
    if (key.str() != "name" && key.str() != "steps") read_phase_key(index, key.str(), value);
}

void ConfigReader::read_phase_path(std::string_view path, const toml::node& node) {
  const auto found = find_phase(config_, path);
  if (found) return read_phase_key(found->index, found->key, node);
  const std::vector<std::string> names = names_of(config_);
  const std::string_view name = path.substr(0, path.find('.'));
  if (names.empty())
    throw ConfigError(fmt::format("{}: got the phase '{}', expected none: the config has no [[phase]]",
                                  source_, printable(name)));
  throw ConfigError(
      fmt::format(
          "{}: got the phase '{}' of {}, expected phase.NAME.KEY or phase.NUMBER.KEY, counted from 0{}",
          source_, printable(name), names.size(), nearest_clause(printable(nearest_name(name, names)))),
      fmt::format("the phases are {}", printable(fmt::format("{}", fmt::join(names, ", ")))));
}

// "name", "data.seq_len", "data.channels.en.weight"; "data" with a table of keys.
void ConfigReader::read_phase_key(size_t index, std::string_view key, const toml::node& node) {
  constexpr std::string_view kChannels = "data.channels";
  Phase& phase = config_.phases[index];
  const std::string label = phase_label(config_, index);
  for (const auto& field : phase_fields()) {
    if (field.name != key) continue;
    read_value(field, phase, fmt::format("{}: {}", label, key), node);
    config_.origins[phase_origin(index, key)] = {kind_, where(node)};
    return;
  }
  const size_t dot = key.find('.');
  const std::string_view section = key.substr(0, dot);
  if (dot == std::string_view::npos) {
    const toml::table* table = node.as_table();
    if (table == nullptr) unknown_phase_key(index, key, node);
    for (const auto& [name, value] : *table)
      read_phase_key(index, fmt::format("{}.{}", key, name.str()), value);
    return;
  }
  if (key_names(section).empty()) unknown_section(section, node);
  const auto channels = phase.settings.find(kChannels);
  if (key.starts_with(kChannels) && key.size() > kChannels.size() && channels != phase.settings.end())
    return read_channel_path(key.substr(kChannels.size() + 1), node,
                             std::get<std::vector<ChannelConfig>>(channels->second),
                             phase_origin(index, kChannels));
  const Field<Config>* field = find_field(section, key.substr(dot + 1));
  if (field == nullptr) unknown_key(section, key.substr(dot + 1), node);
  if (!phase_may_set(key))
    throw ConfigError(fmt::format("{}: {}: a phase may not change {}", where(node), label, key),
                      "a phase may change " + phase_settings_text());
  Config read;
  read_value(*field, read, fmt::format("{}: {}", label, key), node);
  phase.settings.insert_or_assign(std::string(key), value_of(field->slot(read)));
  config_.origins[phase_origin(index, key)] = {kind_, where(node)};
}

void ConfigReader::unknown_phase_key(size_t index, std::string_view name, const toml::node& node) const {
  const std::string label = phase_label(config_, index);
  if (!key_names(name).empty())
    wrong_type(node, fmt::format("{}: {}", label, name),
               fmt::format("keys such as {}.{}", name, key_names(name).front()));
  std::string nearest;
  for (const auto& field : config_fields())
    if (field.name == name && phase_may_set(field.key())) nearest = field.key();
  if (const PeerKey peer = find_peer_key("", name); nearest.empty() && peer.ours != nullptr)
    known_elsewhere(fmt::format("{}: {}", label, printable(name)), peer, node);
  if (nearest.empty()) {
    std::vector<std::string> known = section_names();
    for (const auto& field : phase_fields()) known.emplace_back(field.name);
    nearest = nearest_name(name, known);
  }
  throw ConfigError(
      fmt::format("{}: {}: unknown key '{}'{}", where(node), label, printable(name), nearest_clause(nearest)),
      "a phase has name, steps and any of " + phase_settings_text());
}

}  // namespace athanor::config
