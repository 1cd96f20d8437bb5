#include "athanor/config/reader.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "athanor/base/error.h"
#include "athanor/base/human.h"
#include "athanor/base/nearest.h"
#include "athanor/config/peer_names.h"

namespace athanor::config {
namespace {

std::string in_quotes(std::string_view text) {
  constexpr size_t kShown = 60;
  const std::string safe = printable(text);
  return display_width(safe) <= kShown ? fmt::format("'{}'", safe)
                                       : fmt::format("'{}...'", fit_columns(safe, kShown));
}

std::string describe(const toml::node& node) {
  if (const auto* text = node.as_string()) return "the string " + in_quotes(text->get());
  if (const auto* integer = node.as_integer()) return fmt::format("the integer {}", integer->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("the float {}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (node.is_array()) return "an array";
  if (node.is_table()) return "a table";
  return "a date or time";
}

}  // namespace

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
  const auto integer = [&]() -> int64_t {
    if (field.traits.is_bytes && node.is_string())
      if (const auto size_bytes = parse_bytes(node.as_string()->get())) return *size_bytes;
    if (!node.is_integer())
      wrong_type(node, key,
                 field.traits.auto_is_zero ? "\"auto\" or an integer"
                 : field.traits.is_bytes   ? "bytes: an integer, or a text like \"2GiB\""
                                           : "an integer");
    return node.as_integer()->get();
  };
  const auto number = [&](const toml::node& element, std::string_view expected) -> double {
    if (const auto* whole = element.as_integer()) return static_cast<double>(whole->get());
    if (!element.is_floating_point()) wrong_type(element, key, expected);
    return element.as_floating_point()->get();
  };
  if (auto* const* text = std::get_if<std::string*>(&slot)) {
    if (!node.is_string()) wrong_type(node, key, "a string");
    **text = node.as_string()->get();
    for (const auto& [alias, ours] : field.traits.aliases)
      if (**text == alias) **text = ours;
  } else if (auto* const* whole = std::get_if<int64_t*>(&slot)) {
    const bool is_auto = field.traits.auto_is_zero && node.is_string() && node.as_string()->get() == "auto";
    // Zero stands for "auto" inside the program only.
    if (field.traits.auto_is_zero && node.is_integer() && node.as_integer()->get() == 0)
      wrong_type(node, key, "\"auto\" or an integer of at least 1");
    **whole = is_auto ? 0 : integer();
  } else if (auto* const* natural = std::get_if<uint64_t*>(&slot)) {
    if (integer() < 0) wrong_type(node, key, "at least 0");
    **natural = static_cast<uint64_t>(integer());
  } else if (auto* const* real = std::get_if<double*>(&slot)) {
    **real = number(node, "a number");
  } else if (auto* const* flag = std::get_if<bool*>(&slot)) {
    if (!node.is_boolean()) wrong_type(node, key, "true or false");
    **flag = node.as_boolean()->get();
  } else if (auto* const* numbers = std::get_if<std::vector<double>*>(&slot)) {
    if (!node.is_array()) wrong_type(node, key, "an array of numbers");
    (*numbers)->clear();
    for (const auto& element : *node.as_array())
      (*numbers)->push_back(number(element, "an array of numbers"));
  } else if (auto* const* integers = std::get_if<std::vector<int64_t>*>(&slot)) {
    if (!node.is_array()) wrong_type(node, key, "an array of integers");
    (*integers)->clear();
    for (const auto& element : *node.as_array()) {
      if (!element.is_integer()) wrong_type(element, key, "an array of integers");
      (*integers)->push_back(element.as_integer()->get());
    }
  } else if (auto* const* texts = std::get_if<std::vector<std::string>*>(&slot)) {
    if (!node.is_array()) wrong_type(node, key, "an array of strings");
    (*texts)->clear();
    for (const auto& element : *node.as_array()) {
      if (!element.is_string()) wrong_type(element, key, "an array of strings");
      (*texts)->push_back(element.as_string()->get());
    }
  } else {
    read_channels(node, *std::get<std::vector<ChannelConfig>*>(slot));
  }
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
        fmt::format("{}: unknown key of a channel, expected name, path, weight or valid_path", source_));
  }
  throw ConfigError(
      fmt::format("{}: unknown channel '{}'{}", source_, printable(name),
                  nearest_clause(nearest_name(name, names))),
      fmt::format("the channels are: {}", printable(fmt::format("{}", fmt::join(names, ", ")))));
}

void ConfigReader::wrong_type(const toml::node& node, const std::string& key,
                              std::string_view expected) const {
  const bool wants_text = expected == "a string" && (node.is_number() || node.is_boolean());
  throw ConfigError(
      fmt::format("{}: {}: got {}, expected {}", where(node), key, describe(node), expected),
      wants_text ? "put the value into double quotes (and those into single quotes in a shell)" : "");
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
