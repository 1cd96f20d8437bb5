// TOML tables into a Config, by the list of fields. Private to config/.
#pragma once

#include <string>
#include <string_view>

#include "athanor/config/fields.h"
#include "athanor/config/peer_names.h"

#include <toml++/toml.h>

namespace athanor::config {

std::string nearest_clause(const std::string& nearest);  // ", did you mean 'seq_len'?", or nothing

class ConfigReader {
 public:
  // `source` is the name of a file, to which line numbers are added, or the text of an override.
  ConfigReader(Config& config, Origin::Kind kind, std::string source)
      : config_(config), kind_(kind), source_(std::move(source)) {}

  void read(const toml::table& root);
  void read_path(
      std::string_view path,
      const toml::node& value);  // "train", "train.steps", "data.channels.en.weight", "phase.0.steps"

 private:
  std::string where(const toml::node& node) const;
  void read_section(std::string_view section, const toml::node& node);
  void read_key(std::string_view section, std::string_view name, const toml::node& node);
  void read_channels(const toml::node& node, std::vector<ChannelConfig>& channels);
  void read_optimizer_groups(const toml::node& node, std::vector<OptimizerGroupConfig>& groups) const;
  void read_channel_path(std::string_view path, const toml::node& node, std::vector<ChannelConfig>& channels,
                         const std::string& origin);
  // Of [[phase]]: read_phases.cpp.
  void read_phases(const toml::node& node);
  void read_phase(const toml::table& table);
  void read_phase_path(std::string_view path, const toml::node& node);
  void read_phase_key(size_t index, std::string_view key, const toml::node& node);
  [[noreturn]] void unknown_phase_key(size_t index, std::string_view name, const toml::node& node) const;
  template <typename Owner>
  void read_value(const Field<Owner>& field, Owner& owner, const std::string& key, const toml::node& node);
  [[noreturn]] void wrong_type(const toml::node& node, const std::string& key,
                               std::string_view expected) const;
  [[noreturn]] void known_elsewhere(const std::string& name, const PeerKey& peer,
                                    const toml::node& node) const;
  [[noreturn]] void unknown_section(std::string_view section, const toml::node& node) const;
  [[noreturn]] void unknown_key(std::string_view section, std::string_view name,
                                const toml::node& node) const;

  Config& config_;  // not owned, outlives the reader
  Origin::Kind kind_;
  std::string source_;
};

}  // namespace athanor::config
