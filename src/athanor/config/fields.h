// The one list of settings: reading, printing, checking and suggesting names all walk it.
//
//   for (const Field<Config>& field : config_fields())
//     if (Slot slot = field.slot(config); auto* value = std::get_if<double*>(&slot)) **value = 1.0;
//
// Adding a setting is a member of a table's struct (model_config.h, ...), a line in fields_model.cpp or its like and,
// where it acts beside another one only, a line in effects.cpp. docs/settings.md is made of it (settings_page.h).
// Thread rule: the lists are constant data.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "athanor/config/config.h"

namespace athanor::config {

// A pointer to the member of one struct that a field stands for.
using Slot = std::variant<std::string*, int64_t*, uint64_t*, double*, bool*, std::vector<double>*,
                          std::vector<int64_t>*, std::vector<std::string>*, std::vector<ChannelConfig>*,
                          std::vector<OptimizerGroupConfig>*>;

// The slot of a member, for a row of fields: slot_of<&Options::least>.
template <auto Member, typename Owner>
Slot slot_of(Owner& owner) {
  return &(owner.*Member);
}

// Limits of a number. long double holds every int64 and uint64 exactly.
struct Range {
  long double low = -std::numeric_limits<long double>::infinity();
  long double high = std::numeric_limits<long double>::infinity();
  bool low_open = false, high_open = false;

  bool contains(long double value) const;
  std::string expected(long double got) const;  // what `got` breaks: "at least 1", "a value in [0, 1)"
};

struct Traits {
  Range range = {};
  std::vector<std::string> choices = {};                          // of a string; empty: any
  std::vector<std::pair<std::string, std::string>> aliases = {};  // read as: {"nvme", "disk"}
  bool is_path = false;       // a relative one starts at the folder of the config file
  bool auto_is_zero = false;  // written "auto" in TOML, kept as 0
  bool is_bytes = false;      // of an integer: "2 GiB" will do as well
  bool required = false;      // of a channel: there is no default
};

template <typename Owner>
struct Field {
  const char* section;
  const char* name;
  const char* note;    // what it does, in a line: unit, and what an empty or zero value means
  const char* advice;  // when to change it, and what it costs
  Slot (*slot)(Owner&);
  Traits traits;

  std::string key() const { return std::string(section) + "." + name; }
};

const std::vector<Field<Config>>& config_fields();
const std::vector<Field<ChannelConfig>>& channel_fields();
const std::vector<Field<OptimizerGroupConfig>>& optimizer_group_fields();
const std::vector<Field<Phase>>& phase_fields();  // of [[phase]] itself; its other keys are those of tables
const std::vector<Field<Config>>&
shape_fields();  // of [model], without preset and config, which name a model

// Both with the same type.
void assign(const Slot& to, const SettingValue& value);
SettingValue value_of(const Slot& slot);

const Field<Config>* find_field(std::string_view section, std::string_view name);  // null: unknown
std::vector<std::string> section_names();
std::vector<std::string> key_names(std::string_view section);

}  // namespace athanor::config
