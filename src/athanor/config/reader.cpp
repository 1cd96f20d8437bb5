#include "athanor/config/reader.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "athanor/base/error.h"
#include "athanor/base/human.h"
#include "athanor/base/nearest.h"
#include "athanor/config/peer_names.h"
#include "athanor/config/read_table.h"

namespace athanor::config {

std::string nearest_clause(const std::string& nearest) {
  return nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest);
}

std::string ConfigReader::where(const toml::node& node) const {
  return kind_ == Origin::Kind::file ? fmt::format("{}:{}", source_, node.source().begin.line) : source_;
}

void ConfigReader::read(const toml::table& root) {
  for (const auto& [section, node] : root) read_section(section.str(), node);
}

void ConfigReader::read_path(std::string_view path, const toml::node& value) {
  constexpr std::string_view kChannel = "data.channels.", kPhase = "phase.";
  const size_t dot = path.find('.');
  if (path.empty()) throw ConfigError(fmt::format("{}: got no key, expected section.key=value", source_));
  if (path.starts_with(kChannel))
    return read_channel_path(path.substr(kChannel.size()), value, config_.data.channels, "data.channels");
  if (path.starts_with(kPhase)) return read_phase_path(path.substr(kPhase.size()), value);
  if (dot == std::string_view::npos) return read_section(path, value);
  if (key_names(path.substr(0, dot)).empty()) unknown_section(path.substr(0, dot), value);
  read_key(path.substr(0, dot), path.substr(dot + 1), value);
}

void ConfigReader::read_section(std::string_view section, const toml::node& node) {
  if (section == "phase") return read_phases(node);
  if (key_names(section).empty()) unknown_section(section, node);
  const toml::table* table = node.as_table();
  if (table == nullptr) wrong_type(node, std::string(section), fmt::format("a section [{}]", section));
  for (const auto& [name, value] : *table) read_key(section, name.str(), value);
}

void ConfigReader::read_key(std::string_view section, std::string_view name, const toml::node& node) {
  const Field<Config>* field = find_field(section, name);
  if (field == nullptr) unknown_key(section, name, node);
  read_value(*field, config_, field->key(), node);
  config_.origins[field->key()] = {kind_, where(node)};
}

template <typename Owner>
void ConfigReader::read_value(const Field<Owner>& field, Owner& owner, const std::string& key,
                              const toml::node& node) {
  const Slot slot = field.slot(owner);
  if (auto* const* channels = std::get_if<std::vector<ChannelConfig>*>(&slot))
    return read_channels(node, **channels);
  if (auto* const* groups = std::get_if<std::vector<OptimizerGroupConfig>*>(&slot))
    return read_optimizer_groups(node, **groups);
  read_slot(slot, field.traits, key, node, where(node));
}

template void ConfigReader::read_value(const Field<Config>&, Config&, const std::string&, const toml::node&);
template void ConfigReader::read_value(const Field<Phase>&, Phase&, const std::string&, const toml::node&);

void ConfigReader::read_channels(const toml::node& node, std::vector<ChannelConfig>& channels) {
  constexpr std::string_view kExpected =
      "an array of tables like {name = \"en\", path = \"data/en\", weight = 1.0}";
  if (!node.is_array()) wrong_type(node, "data.channels", kExpected);
  channels.clear();
  for (const auto& element : *node.as_array()) {
    const std::string key = fmt::format("data.channels[{}]", channels.size());
    const toml::table* table = element.as_table();
    if (table == nullptr)
      wrong_type(element, key, "a table like {name = \"en\", path = \"data/en\", weight = 1.0}");
    std::vector<std::string> known;
    for (const auto& field : channel_fields()) known.emplace_back(field.name);
    for (const auto& [name, value] : *table)
      if (std::find(known.begin(), known.end(), name.str()) == known.end())
        throw ConfigError(fmt::format("{}: {}: unknown key '{}'{}", where(value), key, printable(name.str()),
                                      nearest_clause(nearest_name(name.str(), known))),
                          fmt::format("a channel has {}", fmt::join(known, ", ")));
    ChannelConfig channel;
    for (const auto& field : channel_fields()) {
      const toml::node* value = table->get(field.name);
      if (value != nullptr) {
        read_value(field, channel, key + "." + field.name, *value);
      } else if (field.traits.required) {
        throw ConfigError(
            fmt::format("{}: {}.{}: got none, expected a string", where(element), key, field.name));
      }
    }
    channels.push_back(std::move(channel));
  }
}

void ConfigReader::read_optimizer_groups(const toml::node& node,
                                         std::vector<OptimizerGroupConfig>& groups) const {
  constexpr std::string_view kExpected =
      "tables [[optimizer.group]] like {match = \"*.norm.*\", lr_ratio = 0.5}";
  if (!node.is_array()) wrong_type(node, "optimizer.group", kExpected);
  groups.clear();
  for (const auto& element : *node.as_array()) {
    const std::string key = fmt::format("optimizer.group[{}]", groups.size());
    if (!element.is_table()) wrong_type(element, key, kExpected);
    const TableSource source{.file = source_, .name = key};
    read_table(*element.as_table(), optimizer_group_fields(), groups.emplace_back(), source);
  }
}

// NAME.field; the name may hold dots itself.
void ConfigReader::read_channel_path(std::string_view path, const toml::node& node,
                                     std::vector<ChannelConfig>& channels, const std::string& origin) {
  const size_t dot = path.rfind('.');
  const std::string_view name = path.substr(0, dot);
  std::vector<std::string> names;
  for (auto& channel : channels) {
    names.push_back(channel.name);
    if (channel.name != name || dot == std::string_view::npos) continue;
    for (const auto& field : channel_fields()) {
      if (field.name != path.substr(dot + 1)) continue;
      read_value(field, channel, "data.channels." + std::string(path), node);
      config_.origins[origin] = {kind_, where(node)};
      return;
    }
    throw ConfigError(
        fmt::format("{}: unknown key of a channel, expected name, path, weight, epochs, tokens, valid_path, "
                    "messages, prompt, answer or template",
                    source_));
  }
  throw ConfigError(
      fmt::format("{}: unknown channel '{}'{}", source_, printable(name),
                  nearest_clause(nearest_name(name, names))),
      fmt::format("the channels are: {}", printable(fmt::format("{}", fmt::join(names, ", ")))));
}

void ConfigReader::wrong_type(const toml::node& node, const std::string& key,
                              std::string_view expected) const {
  refuse_type(node, where(node), key, expected);
}

void ConfigReader::known_elsewhere(const std::string& name, const PeerKey& peer,
                                   const toml::node& node) const {
  throw ConfigError(fmt::format("{}: {}: unknown key, expected {}", where(node), name, peer.ours),
                    std::string_view(peer.note).empty() ? "" : fmt::format("{}: {}", peer.ours, peer.note));
}

void ConfigReader::unknown_section(std::string_view section, const toml::node& node) const {
  auto sections = section_names();
  sections.emplace_back("phase");
  std::string nearest = nearest_name(section, sections);
  for (const auto& field : config_fields())
    if (!node.is_table() && field.name == section) nearest = field.key();
  if (const PeerKey peer = find_peer_key("", section);
      peer.ours != nullptr && nearest.find('.') == std::string::npos) {
    const std::string_view ours = peer.ours;
    if (!node.is_table()) known_elsewhere(printable(section), peer, node);
    if (nearest.empty()) nearest = ours.substr(0, ours.find('.'));
  }
  throw ConfigError(
      fmt::format("{}: unknown section '{}'{}", where(node), printable(section), nearest_clause(nearest)),
      fmt::format("the sections are {}", fmt::join(sections, ", ")));
}

void ConfigReader::unknown_key(std::string_view section, std::string_view name,
                               const toml::node& node) const {
  const auto known = key_names(section);
  const std::string here = nearest_name(name, known);
  std::string nearest = here.empty() ? "" : fmt::format("{}.{}", section, here);
  // A key that is right but stands in the wrong section is a commoner slip than a misspelling.
  bool ours = false;
  for (const auto& field : config_fields()) {
    if (field.name != name) continue;
    nearest = field.key();
    ours = true;
  }
  if (const PeerKey peer = find_peer_key(section, name); peer.ours != nullptr && (peer.was_ours || !ours))
    known_elsewhere(fmt::format("{}.{}", section, printable(name)), peer, node);
  throw ConfigError(fmt::format("{}: unknown key '{}.{}'{}", where(node), section, printable(name),
                                nearest_clause(nearest)),
                    fmt::format("[{}] has {}", section, fmt::join(known, ", ")));
}

}  // namespace athanor::config
