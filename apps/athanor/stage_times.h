// The option --times F,B,W of commands that deal with pipelines.
#pragma once

#include <string>

#include "athanor/pipeline/simulate.h"

namespace athanor {

// "9.8,11.2,8.1": F, B and W. ConfigError naming the command for anything else, and for what is negative.
StageCost parse_stage_times(const std::string& command, const std::string& text);

}  // namespace athanor
