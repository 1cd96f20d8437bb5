// What happened to a run: a timeline of its events, a table of its incidents and the time that they cost.
//
//   const std::string text = timeline(events) + incident_table(events) + lost_time(events);
//
// The time between the end of one launch and the start of the next is cut short in the timeline. Thread rule: pure functions.
#pragma once

#include <string>
#include <vector>

#include "athanor/observe/event_log.h"
#include "athanor/observe/incidents.h"

namespace athanor::observe::html {

// Those of each launch or process by themselves: what was open when one ended does not end in the next.
std::vector<Incidents> incidents_by_launch(const std::vector<RunEvent>& events);

std::string timeline(const std::vector<RunEvent>& events);
std::string incident_table(const std::vector<RunEvent>& events);
std::string lost_time(const std::vector<RunEvent>& events);

}  // namespace athanor::observe::html
