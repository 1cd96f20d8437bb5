#include "athanor/run/run_history.h"

#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/format/staged_folder.h"
#include "athanor/observe/report.h"

namespace athanor::run {
namespace {

std::string committed_file(const RunFolder& folder) {
  return folder.file("committed.json");
}

// The report, or nothing where it is missing, cut off or something else.
nlohmann::json read_report(Env& env, const std::string& run_folder, const std::string& name) {
  try {
    const std::string path = join_path(run_folder, name);
    if (env.exists(path)) return nlohmann::json::parse(env.read_text(path), nullptr, false);
  } catch (const Failure&) {  // as good as none
  }
  return nlohmann::json::value_t::discarded;
}

// Between two worlds no rank may hold the folder, and the run lives.
bool has_launcher(const std::string& run_folder) {
  return lock_holder(join_path(run_folder, "launcher.json")).has_value();
}

}  // namespace

bool has_committed(Env& env, const RunFolder& folder) {
  if (env.exists(committed_file(folder))) return true;
  const nlohmann::json report =
      read_report(env, folder.path, kReportName);  // older versions wrote no committed.json
  return report.is_object() && report.contains("digest") && report["digest"].is_string() &&
         !report["digest"].get<std::string>().empty();
}

void record_commit(Env& env, const RunFolder& folder, int64_t step) {
  if (env.exists(committed_file(folder))) return;
  env.write_atomically(committed_file(folder), fmt::format("{{\"first_step\": {}}}\n", step));
}

void forget_commits(Env& env, const RunFolder& folder) {
  if (env.exists(committed_file(folder))) env.remove_all(committed_file(folder));
}

void check_may_begin(Env& env, const RunFolder& folder, const std::vector<std::string>& skipped) {
  if (skipped.empty() && !has_committed(env, folder)) return;
  const std::string found = skipped.empty()
                                ? fmt::format("'{}' holds none", folder.checkpoints())
                                : fmt::format("of the {} that are there none can be read, the newest: {}",
                                              skipped.size(), skipped.front());
  throw Error(fmt::format("'{}': the run has saved checkpoints before, but {}", folder.path, found),
              fmt::format("bring them back to go on; to start anew, move '{}' away or give the run another "
                          "train.name",
                          folder.path));
}

std::string last_report_name(Env& env, const std::string& run_folder) {
  return env.exists(join_path(run_folder, kRunReportName)) ? kRunReportName : kReportName;
}

std::optional<RunStatus> run_status(Env& env, const std::string& run_folder, bool holds_lock,
                                    const std::string& report_name) {
  const nlohmann::json report = read_report(env, run_folder, report_name);
  if (!report.is_object()) return std::nullopt;
  const auto text = [&](const char* key) {
    return report.contains(key) && report[key].is_string() ? report[key].get<std::string>() : std::string();
  };
  const auto number = [&](const char* key) {
    return report.contains(key) && report[key].is_number_integer() ? report[key].get<int64_t>() : 0;
  };
  RunStatus found{.status = text("status"),
                  .reason = text("reason"),
                  .host = text("host"),
                  .pid = number("pid"),
                  .steps = number("steps")};
  if (found.status == "running" &&
      (holds_lock || (!has_launcher(run_folder) && FolderLock::try_take(run_folder))))
    found.status = "dead";
  return found;
}

}  // namespace athanor::run
