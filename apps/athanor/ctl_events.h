// events.jsonl of a run as lines for people (athanor ctl RUN events).
#pragma once

#include <string>

#include "apps/command_line/print.h"

namespace athanor::apps {

// "2026-11-27 05:13:08.250  step 41     generation 0  failure, rank 1: was killed by signal 9 (SIGKILL); seen after 0.2 ms"
std::string event_line(const Json& event);

}  // namespace athanor::apps
