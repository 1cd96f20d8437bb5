// events.jsonl in the folder of a run: one JSON object a line for what happened to its ranks.
//
//   EventLog log(env, warn);
//   log.add(JobEvent{.event = "failure", .step = 41, .generation = 0, .rank = 1, .cause = "was killed by signal 9"});
//   log.open("runs/first");                         // what was added before is written now
//
//   a line of it:
//   {"time":1700000000.123,"event":"failure","step":41,"generation":0,"rank":1,"node":0,"cause":"...",
//    "detect_seconds":0.0002,"recover_seconds":null,"lost_steps":null}
//
// What cannot be written is said once and harms nothing else. Thread rule: one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "athanor/base/file.h"
#include "athanor/launch/master_actions.h"

namespace athanor::launch {

constexpr const char* kEventsName = "events.jsonl";

class EventLog {
 public:
  EventLog(Env& env, std::function<void(const std::string&)> warn) : env_(&env), warn_(std::move(warn)) {}

  void add(const JobEvent& event);
  void open(const std::string& run_folder);  // the first one counts
  const std::string& path() const { return path_; }  // "": not open yet

 private:
  void write();

  Env* env_;
  std::function<void(const std::string&)> warn_;
  std::string path_, waiting_;
  std::unique_ptr<WritableFile> file_;
  bool failed_ = false;
};

}  // namespace athanor::launch
