// For commands that use only the data settings of a config: refuses overrides of other keys, which would have no
// effect.
//
//   check_overrides(overrides, {"data.", "train.seed"}, "evaluate");   // ConfigError naming the first other one
//
// Thread rule: pure functions.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace athanor::apps {

// `read`: the keys that the command uses, and sections with a dot at the end.
void check_overrides(const std::vector<std::string>& overrides, std::initializer_list<std::string_view> read,
                     const std::string& command);

}  // namespace athanor::apps
