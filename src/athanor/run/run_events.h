// What happens to a run beside its steps: acts of guards, checkpoints, start and end. Under a launcher they are told to it;
// a lone `train` writes them to events.jsonl itself, and counts what incidents have cost it.
//
//   RunEvents events(env, /*tells=*/nullptr, warn);             // lone; else a function that tells the launcher
//   events.begin("runs/first", step, generation);                           // writes "start"
//   events.tell({.event = "guard", .step = 71, .cause = "...", .recover_seconds = 0.2, .lost_steps = 1});
//   events.put_into(report);                                    // goodput and incidents, where nobody else says them
//
// Only rank 0 has events. What cannot be written is said once and harms nothing. Thread rule: one thread.
#pragma once

#include <functional>
#include <string>

#include "athanor/base/clock.h"
#include "athanor/observe/event_log.h"
#include "athanor/observe/incidents.h"

namespace athanor::run {

struct TrainReport;

class RunEvents {
 public:
  using Tell = std::function<void(const observe::RunEvent&)>;
  RunEvents(Env& env, Tell tells, std::function<void(const std::string&)> warn);

  bool is_lone() const { return !tells_; }
  void begin(const std::string& run_folder, int64_t step, int64_t generation);
  void tell(const observe::RunEvent& event);
  void put_into(TrainReport& report) const;

 private:
  Tell tells_;
  observe::EventLog log_;
  observe::Incidents incidents_;
  double began_at_ = -1.0;
};

}  // namespace athanor::run
