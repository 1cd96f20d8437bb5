// What commands for pipelines share: the option --times F,B,W (forward, backward for inputs, backward for weights), and
// the name of a schedule.
#pragma once

#include <string>

#include "athanor/pipeline/simulate.h"

namespace athanor::apps {

constexpr const char* kAuto = "auto";  // beside those of make_schedule: what solve() finds

// "9.8,11.2,8.1": F, B and W. ConfigError naming the command for anything else, and for negative times.
StageCost parse_stage_times(const std::string& command, const std::string& text);

}  // namespace athanor::apps
