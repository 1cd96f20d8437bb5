// What went wrong in a run, or was asked of it, and what that cost: made of its events (event_log.h).
//
//   Incidents incidents;
//   incidents.take({.event = "failure", .step = 41, .rank = 1, .cause = "was killed by signal 9", .time = 12.5});
//   incidents.take({.event = "recovered", .step = 41, .recover_seconds = 0.8, .lost_steps = 0, .time = 13.3});
//   incidents.put_into(report);
//
// An incident is a failure, a change of size, an order of the operator or an act of a guard. "recovered" ends all that are
// open; the time that passed was lost by the first of them. put_into() writes `incidents` (a list of those events, with null
// for what is not known, the newest kMostListed), `num_incidents`, and `lost_seconds` by the event that began them. Thread
// rule: plain data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "athanor/observe/event_log.h"
#include "athanor/observe/report.h"

namespace athanor::observe {

class Incidents {
 public:
  static constexpr size_t kMostListed = 200;

  void take(const RunEvent& event);
  const std::vector<RunEvent>& all() const { return all_; }
  // By the event that began it.
  const std::vector<std::pair<std::string, double>>& lost_seconds() const { return lost_; }
  double total_lost_seconds() const;
  void put_into(Report& report) const;

 private:
  void lose(const std::string& event, double seconds);

  std::vector<RunEvent> all_;
  size_t first_open_ = 0;  // those from here on have not ended
  std::vector<std::pair<std::string, double>> lost_;
};

}  // namespace athanor::observe
