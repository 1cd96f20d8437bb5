#include "athanor/observe/event_log.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"

namespace athanor::observe {

using Json = nlohmann::ordered_json;

double EventLog::add(const RunEvent& event) {
  const double time = wall_seconds();
  const auto known = [](auto value) { return value < 0 ? Json() : Json(value); };
  const Json json = {{"time", time},
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
  return time;
}

std::vector<RunEvent> read_events(std::string_view text) {
  std::vector<RunEvent> events;
  // A last line without its end is still being written.
  for (size_t start = 0, end = 0; (end = text.find('\n', start)) != std::string_view::npos; start = end + 1) {
    const std::string_view line = text.substr(start, end - start);
    const Json json = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    const auto words = [&](const char* key) {
      const auto found = json.find(key);
      return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    const auto number = [&](const char* key, auto otherwise) {
      const auto found = json.find(key);
      return found != json.end() && found->is_number() ? found->get<decltype(otherwise)>() : otherwise;
    };
    RunEvent event{.event = words("event"),
                   .step = number("step", int64_t{-1}),
                   .generation = number("generation", int64_t{-1}),
                   .rank = number("rank", -1),
                   .cause = words("cause"),
                   .detect_seconds = number("detect_seconds", -1.0),
                   .recover_seconds = number("recover_seconds", -1.0),
                   .lost_steps = number("lost_steps", int64_t{-1}),
                   .time = number("time", -1.0)};
    if (!event.event.empty()) events.push_back(std::move(event));
  }
  return events;
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

}  // namespace athanor::observe
