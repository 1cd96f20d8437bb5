// Commands that read a config for its data alone: an override of anything else would do nothing there.
//
//   check_overrides(overrides, {"data.", "train.seed"}, "evaluate");   // ConfigError naming the first other one
//
// Thread rule: pure functions.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

// `read`: keys, and sections with a dot behind them.
void check_overrides(const std::vector<std::string>& overrides, std::initializer_list<std::string_view> read,
                     const std::string& command);

}  // namespace athanor
