#include "athanor/observe/run_events.h"

#include <algorithm>
#include <utility>

namespace athanor::observe {

RunEvents::RunEvents(Env& env, Tell tells, std::function<void(const std::string&)> warn)
    : tells_(std::move(tells)), log_(env, std::move(warn)) {}

void RunEvents::begin(const std::string& run_folder, int64_t step, int64_t generation) {
  if (!is_lone()) return;
  began_at_ = now_seconds();
  log_.open(run_folder);
  tell({.event = "start", .step = step, .generation = generation});
}

void RunEvents::tell(const RunEvent& event) {
  if (!is_lone()) return tells_(event);
  RunEvent timed = event;
  timed.time = log_.add(event);
  incidents_.take(timed);
}

double RunEvents::goodput() const {
  const double seconds = began_at_ < 0.0 ? 0.0 : now_seconds() - began_at_;
  return seconds > 0.0 ? std::max(0.0, 1.0 - incidents_.total_lost_seconds() / seconds) : 1.0;
}

}  // namespace athanor::observe
