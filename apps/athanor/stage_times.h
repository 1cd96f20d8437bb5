// What commands that deal with pipelines have in common: the option --times F,B,W, and a schedule's name.
#pragma once

#include <string>

#include "athanor/pipeline/simulate.h"

namespace athanor {

constexpr const char* kAuto = "auto";  // beside those of make_schedule: what solve() finds

// "9.8,11.2,8.1": F, B and W. ConfigError naming the command for anything else, and for what is negative.
StageCost parse_stage_times(const std::string& command, const std::string& text);

}  // namespace athanor
