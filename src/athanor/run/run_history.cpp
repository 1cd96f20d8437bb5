#include "athanor/run/run_history.h"

#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/checkpoint/checkpoint.h"

namespace athanor::run {
namespace {

std::string committed_file(const RunFolder& folder) {
  return folder.file("committed.json");
}

// The report, or nothing where it is missing, cut off or something else.
nlohmann::json read_report(Env& env, const std::string& run_folder) {
  try {
    const std::string path = join_path(run_folder, "report.json");
    if (env.exists(path)) return nlohmann::json::parse(env.read_text(path), nullptr, false);
  } catch (const Failure&) {  // as good as none
  }
  return nlohmann::json::value_t::discarded;
}

}  // namespace

bool has_committed(Env& env, const RunFolder& folder) {
  if (env.exists(committed_file(folder))) return true;
  const nlohmann::json report = read_report(env, folder.path);  // older versions wrote no committed.json
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

std::optional<RunStatus> run_status(Env& env, const std::string& run_folder, bool holds_lock) {
  const nlohmann::json report = read_report(env, run_folder);
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
  if (found.status == "running" && (holds_lock || FolderLock::try_take(run_folder))) found.status = "dead";
  return found;
}

}  // namespace athanor::run
