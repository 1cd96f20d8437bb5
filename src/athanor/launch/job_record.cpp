#include "athanor/launch/job_record.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/launch/stop_requests.h"
#include "athanor/observe/log.h"

namespace athanor::launch {
namespace {

constexpr int64_t kRenewNs = 1'000'000'000;

using Json = nlohmann::ordered_json;

std::string read(Env& env, const std::string& path) {
  try {
    return env.exists(path) ? env.read_text(path) : "";
  } catch (const IoError&) {
    return "";
  }
}

Json parse(const std::string& text) {
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string text_of(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

JobRecord::JobRecord(Env& env, JobPlace writer, std::function<void(const std::string&)> warn)
    : env_(&env), writer_(std::move(writer)), warn_(std::move(warn)), events_(env, warn_) {}

void JobRecord::open(const std::string& run_folder) {
  if (!run_folder_.empty() || run_folder.empty()) return;
  run_folder_ = run_folder;
  found_ = read(*env_, join_path(run_folder_, kRunReportName));
}

void JobRecord::begun(const std::string& run_folder) {
  if (run_folder_.empty()) run_folder_ = run_folder;
  has_begun_ = true;
  events_.open(run_folder);
  next_ns_ = 0;
}

void JobRecord::add(const observe::RunEvent& event) {
  observe::RunEvent timed = event;
  if (auto last = std::exchange(last_of_other_, std::nullopt)) {
    last->time = event.time;
    if (*last == event) return;
  }
  timed.time = events_.add(event);
  incidents_.take(timed);
}

void JobRecord::go_on(const std::string& run_folder) {
  begun(run_folder);
  const auto events = observe::read_events(read(*env_, join_path(run_folder, observe::kEventsName)));
  if (!events.empty()) last_of_other_ = events.back();
  const auto start = std::find_if(events.rbegin(), events.rend(),
                                  [](const observe::RunEvent& one) { return one.event == "start"; });
  if (start == events.rend()) return;
  for (auto event = std::prev(start.base()); event != events.end(); ++event) incidents_.take(*event);
}

std::string JobRecord::run_report() const {
  const std::string text = read(*env_, join_path(run_folder_, kRunReportName));
  return text == found_ ? "" : text;
}

bool JobRecord::says_running() const {
  return text_of(parse(read(*env_, join_path(run_folder_, kReportName))), "status") == "running";
}

void JobRecord::renew(double goodput, int64_t now_ns) {
  if (run_folder_.empty()) return;
  next_ns_ = now_ns + kRenewNs;
  if (const std::string said = run_report(); !said.empty()) write(said, "running", "", goodput);
}

void JobRecord::finish(int exit_code, const std::string& summary, double goodput) {
  if (run_folder_.empty()) return;
  std::string said = run_report();
  const bool is_good = exit_code == 0 || exit_code == kInterruptedExitCode;
  // The launcher before this one was killed, and its ranks have said how they ended.
  if (said.empty() && is_good && says_running()) said = read(*env_, join_path(run_folder_, kRunReportName));
  if (said.empty()) return;
  if (is_good) return write(said, exit_code == 0 ? "finished" : "interrupted", "", goodput);
  const Json run = parse(said);
  const std::string reason = text_of(run, "status") == "failed" ? text_of(run, "reason") : "";
  write(said, "failed", reason.empty() ? summary : reason, goodput);
}

void JobRecord::write(const std::string& run_report, const std::string& status, const std::string& reason,
                      double goodput) {
  Json report = parse(run_report);
  if (!report.is_object()) return;
  report["status"] = status;
  report["reason"] = reason;
  report["host"] = writer_.host;
  report["pid"] = writer_.pid;
  report["time"] = observe::utc_time(wall_seconds());
  observe::Report told;
  told["goodput"] = goodput;
  incidents_.put_into(told);
  report.update(parse(told.to_json()));
  const std::string path = join_path(run_folder_, kReportName);
  const std::string text = report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  try {
    if (status == "running")
      env_->replace(path, text);  // a failure is to be seen at once, whatever the disk does
    else
      env_->write_atomically(path, text);
    has_warned_ = false;
  } catch (const IoError& error) {
    if (!std::exchange(has_warned_, true))
      warn_(std::string("report.json could not be written: ") + error.what());
  }
}

}  // namespace athanor::launch
