// events.jsonl in the folder of a run: one JSON object a line for what happened to it and to its ranks.
//
//   EventLog log(env, warn);
//   log.add({.event = "failure", .step = 41, .generation = 0, .rank = 1, .cause = "was killed by signal 9"});
//   log.open("runs/first");                         // what was added before is written now
//   const std::vector<RunEvent> events = read_events(env.read_text("runs/first/events.jsonl"));
//
//   a line of it:
//   {"time":1700000000.123,"event":"failure","step":41,"generation":0,"rank":1,"node":0,"cause":"...",
//    "detect_seconds":0.0002,"recover_seconds":null,"lost_steps":null}
//
// What cannot be written is said once and harms nothing else. read_events() leaves out what is no event, or cut off. Thread
// rule: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/base/file.h"

namespace athanor::observe {

constexpr const char* kEventsName = "events.jsonl";

// Negative numbers: nothing to say.
struct RunEvent {
  // start, failure, stopped, hang, measured, warm-up, slow, memory-growth, hardware, restart, recovered, shrink, grow, snapshot, rollback,
  // guard, checkpoint, master, stop, end
  std::string event{};
  int64_t step = -1, generation = -1;
  int rank = -1;
  std::string cause{};
  double detect_seconds = -1.0, recover_seconds = -1.0;
  int64_t lost_steps = -1;
  double time = -1.0;  // wall clock, of the line that was written
  bool operator==(const RunEvent&) const = default;
};

std::vector<RunEvent> read_events(std::string_view text);

class EventLog {
 public:
  EventLog(Env& env, std::function<void(const std::string&)> warn) : env_(&env), warn_(std::move(warn)) {}

  double add(const RunEvent& event);         // its time, which is now
  void open(const std::string& run_folder);  // the first one counts

 private:
  void write();

  Env* env_;
  std::function<void(const std::string&)> warn_;
  std::string path_, waiting_;
  std::unique_ptr<WritableFile> file_;
  bool failed_ = false;
};

}  // namespace athanor::observe
