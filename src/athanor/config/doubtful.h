// Settings that are legal and seldom meant, as sentences for the user.
//
//   for (const std::string& line : doubtful_settings(config)) console.warning(line);
//
// What a config alone tells; run/doubtful_data.h tells what the data add. Thread rule: pure functions.
#pragma once

#include <string>
#include <vector>

#include "athanor/config/config.h"

namespace athanor::config {

std::vector<std::string> doubtful_settings(const Config& config);

}  // namespace athanor::config
