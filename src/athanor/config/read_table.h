// A table of TOML into any struct by its list of fields: for files whose settings are not a run's (Config).
//
//   const toml::table table = toml::parse("keep = [\"en\"]");
//   LanguageOptions options;
//   read_table(table, language_fields(), options, {.file = "corpus.toml", .name = "stage 1 (language)"});
//
// Ranges and choices of the fields are checked, too. Thread rule: pure functions.
// Errors: ConfigError as "corpus.toml:12: stage 1 (language).keep: got the integer 1, expected an array of strings".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/config/fields.h"

#include <toml++/toml.h>

namespace athanor::config {

// One value; `where` stands before the message. Fields of channels are not for this.
void read_slot(const Slot& slot, const Traits& traits, const std::string& key, const toml::node& node,
               const std::string& where);
// ConfigError where the value that a slot has is outside of its range or none of its choices.
void check_slot(const Slot& slot, const Traits& traits, const std::string& key, const std::string& where);

// "WHERE: KEY: got the integer 1, expected EXPECTED"
[[noreturn]] void refuse_type(const toml::node& node, const std::string& where, const std::string& key,
                              std::string_view expected);
// "WHERE: unknown key 'OWNER.NAME', did you mean ...?", with all that it has as hint.
[[noreturn]] void refuse_key(const std::string& where, const std::string& owner, std::string_view name,
                             const std::vector<std::string>& known);

struct TableSource {
  std::string file;                              // for messages
  std::string name;                              // of the table
  std::vector<std::string> read_elsewhere = {};  // keys of the table that are not of `fields`
};

std::string line_of(const TableSource& source, const toml::node& node);  // "corpus.toml:12"

template <typename Owner>
void read_table(const toml::table& table, const std::vector<Field<Owner>>& fields, Owner& owner,
                const TableSource& source) {
  std::vector<std::string> known = source.read_elsewhere;
  for (const Field<Owner>& field : fields) known.emplace_back(field.name);
  for (const auto& [name, node] : table) {
    const Field<Owner>* found = nullptr;
    bool elsewhere = false;
    for (const Field<Owner>& field : fields)
      if (field.name == name.str()) found = &field;
    for (const std::string& other : source.read_elsewhere) elsewhere = elsewhere || other == name.str();
    if (found == nullptr && !elsewhere) refuse_key(line_of(source, node), source.name, name.str(), known);
    if (found == nullptr) continue;
    const std::string key = source.name + "." + found->name;
    const Slot slot = found->slot(owner);
    read_slot(slot, found->traits, key, node, line_of(source, node));
    check_slot(slot, found->traits, key, line_of(source, node));
  }
  for (const Field<Owner>& field : fields)
    if (field.traits.required && table.get(field.name) == nullptr)
      throw ConfigError(line_of(source, table) + ": " + source.name + "." + field.name +
                        ": got none, expected one");
}

}  // namespace athanor::config
