#include "athanor/chaos/run_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <sstream>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/observe/event_log.h"

namespace athanor::chaos {
namespace {

std::string text_now(const std::string& path) {
  try {
    return system_env().read_text(path);
  } catch (const IoError&) {
    return "";  // not there yet, or being replaced
  }
}

std::optional<SeenStep> step_in(const std::string& line, int64_t now_ns) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step")) return std::nullopt;
  return SeenStep{json.value("step", int64_t{0}), json.value("generation", int64_t{0}), now_ns};
}

}  // namespace

RunWatch::RunWatch(const std::string& run_folder)
    : folder_(run_folder),
      inotify_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
      metrics_{join_path(run_folder, "metrics.jsonl")},
      job_events_{join_path(run_folder, kEventsName)} {
  if (inotify_.get() < 0) throw IoError("chaos: the system gives no inotify", errno);
  const std::string above = parent_folder(run_folder);
  if (inotify_add_watch(inotify_.get(), above.c_str(), IN_CREATE | IN_MOVED_TO) < 0)
    throw_io_error("watch", above, errno);
  watch_folder();
  take();
}

// Files are watched through their folder, so that one that is replaced stays watched.
void RunWatch::watch_folder() {
  watches_folder_ =
      inotify_add_watch(inotify_.get(), folder_.c_str(), IN_CREATE | IN_MOVED_TO | IN_MODIFY) >= 0;
}

void RunWatch::take() {
  alignas(inotify_event) std::array<char, 1 << 14> told;
  while (read(inotify_.get(), told.data(), told.size()) > 0) {
  }
  if (!watches_folder_) watch_folder();
  if (!watches_folder_) return;
  const int64_t now = now_ns();
  for (const std::string& line : metrics_.new_lines())
    if (const auto step = step_in(line, now)) steps_.push_back(*step);
  for (const std::string& line : job_events_.new_lines()) {
    Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) events_.push_back({std::move(json), now});
  }
}

std::vector<std::string> RunWatch::Followed::new_lines() {
  std::string now = text_now(path);
  now.resize(now.rfind('\n') + 1);  // npos + 1 is 0
  const auto [end, unused] = std::mismatch(now.begin(), now.end(), text.begin(), text.end());
  const std::string_view same(now.data(), static_cast<size_t>(end - now.begin()));
  std::vector<std::string> lines;
  for (size_t at = same.rfind('\n') + 1; at < now.size();) {
    const size_t stop = now.find('\n', at);
    lines.push_back(now.substr(at, stop - at));
    at = stop + 1;
  }
  text = std::move(now);
  return lines;
}

std::string text_in(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
}

std::vector<SeenStep> steps_in_file(const std::string& path) {
  std::vector<SeenStep> steps;
  std::istringstream text(text_now(path));
  for (std::string line; std::getline(text, line);)
    if (const auto step = step_in(line, now_ns())) steps.push_back(*step);
  return steps;
}

int64_t RunWatch::best_step() const {
  int64_t best = 0;
  for (const SeenStep& seen : steps_) best = std::max(best, seen.step);
  return best;
}

int64_t RunWatch::newest_generation() const {
  int64_t newest = -1;
  for (const SeenStep& seen : steps_) newest = std::max(newest, seen.generation);
  return newest;
}

int64_t RunWatch::step_ns(int64_t step) const {
  for (const SeenStep& seen : steps_)
    if (seen.step >= step) return seen.at_ns;
  return -1;
}

}  // namespace athanor::chaos
