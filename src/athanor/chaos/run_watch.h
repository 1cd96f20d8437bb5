// Follows a run's folder from outside while it is written: when each step's line of metrics.jsonl and each event of
// events.jsonl was first seen. inotify tells of every write, so nothing is polled and nothing is asked of the run.
//
//   RunWatch watch("runs/first");                   // need not be there yet; the folder above must be
//   poll(watch.fd(), POLLIN);
//   watch.take();
//   watch.steps().back();                           // {.step = 41, .generation = 0, .at_ns = ...}
//
// A line counts once, whatever becomes of it later: a run that goes back cuts its file, and lines of steps that are done
// again come with a newer generation. Errors: IoError where the system gives no watch. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "athanor/control/descriptor.h"

namespace athanor::chaos {

using Json = nlohmann::ordered_json;

struct SeenStep {
  int64_t step = 0, generation = 0, at_ns = 0;  // monotonic
};
struct SeenEvent {
  Json event;
  int64_t at_ns = 0;
  std::string kind() const { return event.value("event", ""); }
};

class RunWatch {
 public:
  explicit RunWatch(const std::string& run_folder);

  int fd() const { return inotify_.get(); }
  void take();  // all that has been written up to now

  const std::vector<SeenStep>& steps() const { return steps_; }
  const std::vector<SeenEvent>& events() const { return events_; }
  int64_t best_step() const;            // 0: none
  int64_t newest_generation() const;    // -1: none
  int64_t step_ns(int64_t step) const;  // when it was first seen; -1: not yet

 private:
  // The complete lines of a file that were not there when it was last read.
  struct Followed {
    std::string path, text{};
    std::vector<std::string> new_lines();
  };
  void watch_folder();

  std::string folder_;
  control::Descriptor inotify_;
  bool watches_folder_ = false;
  Followed metrics_, job_events_;
  std::vector<SeenStep> steps_;
  std::vector<SeenEvent> events_;
};

std::string text_in(const Json& json, const char* key);  // "": no text stands there

// All steps of a file of metrics, at the time of the call; none where it is not there.
std::vector<SeenStep> steps_in_file(const std::string& path);

}  // namespace athanor::chaos
