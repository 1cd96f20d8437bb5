// What happens to a run beside its steps: acts of guards, checkpoints, start and end. Under a launcher they are told to it;
// a lone `train` writes them to events.jsonl itself, and counts what incidents have cost it.
//
//   RunEvents events(env, /*tells=*/nullptr, warn);             // lone; else a function that tells the launcher
//   events.begin("runs/first", step, generation);                           // writes "start"
//   events.tell({.event = "guard", .step = 71, .cause = "...", .recover_seconds = 0.2, .lost_steps = 1});
//   if (events.is_lone()) report.goodput = events.goodput();    // else the launcher says it
//
// Only rank 0 has events. What cannot be written is said once and harms nothing. Thread rule: one thread.
#pragma once

#include <functional>
#include <string>

#include "athanor/base/clock.h"
#include "athanor/observe/event_log.h"
#include "athanor/observe/incidents.h"

namespace athanor::observe {

class RunEvents {
 public:
  using Tell = std::function<void(const RunEvent&)>;
  RunEvents(Env& env, Tell tells, std::function<void(const std::string&)> warn);

  bool is_lone() const { return !tells_; }
  void begin(const std::string& run_folder, int64_t step, int64_t generation);
  void tell(const RunEvent& event);
  const Incidents& incidents() const { return incidents_; }
  double goodput() const;  // share of the time since begin() that no incident took

 private:
  Tell tells_;
  EventLog log_;
  Incidents incidents_;
  double began_at_ = -1.0;
};

}  // namespace athanor::observe
