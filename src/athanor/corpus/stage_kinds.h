// The kinds of stages that a corpus file may name. A new one is a line in stage_kinds.cpp.
//
//   const StageKind& kind = find_stage_kind("heuristics", where);    // ConfigError with the nearest
//   kind.make(folder, table, source, config);                           // fills config.stage or config.keys
//
// Thread rule: constant data.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "athanor/config/read_table.h"
#include "athanor/corpus/corpus_config.h"

namespace athanor::corpus {

struct StageKind {
  std::string name;
  std::string note;  // what it does, in a line
  // Relative paths of the table start at `folder`.
  std::function<void(const std::string& folder, const toml::table& table, const TableSource& source,
                     StageConfig& config)>
      make;
};

const std::vector<StageKind>& stage_kinds();
const StageKind& find_stage_kind(const std::string& name, const std::string& where);

}  // namespace athanor::corpus
