#include "athanor/launch/event_log.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"

namespace athanor::launch {

using Json = nlohmann::ordered_json;

void EventLog::add(const JobEvent& event) {
  const auto known = [](auto value) { return value < 0 ? Json() : Json(value); };
  const Json json = {{"time", wall_seconds()},
                     {"event", event.event},
                     {"step", known(event.step)},
                     {"generation", known(event.generation)},
                     {"rank", known(event.rank)},
                     {"node", 0},
                     {"cause", event.cause.empty() ? Json() : Json(event.cause)},
                     {"detect_seconds", known(event.detect_seconds)},
                     {"recover_seconds", known(event.recover_seconds)},
                     {"lost_steps", known(event.lost_steps)}};
  waiting_ += json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  if (!path_.empty()) write();
}

void EventLog::open(const std::string& run_folder) {
  if (!path_.empty() || run_folder.empty()) return;
  path_ = join_path(run_folder, kEventsName);
  write();
}

void EventLog::write() {
  if (failed_) return;
  try {
    if (file_ == nullptr) file_ = env_->append_to(path_);
    file_->append(waiting_);
    file_->flush();
    waiting_.clear();
  } catch (const IoError& error) {
    failed_ = true;
    warn_(std::string("events are not written any more: ") + error.what());
  }
}

}  // namespace athanor::launch
