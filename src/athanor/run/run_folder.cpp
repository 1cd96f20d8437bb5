#include "athanor/run/run_folder.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/format_version.h"
#include "athanor/base/hash.h"
#include "athanor/config/phases.h"
#include "athanor/config/print.h"
#include "athanor/run/resume_changes.h"
#include "athanor/run/run_history.h"

namespace athanor::run {
namespace {

constexpr double kLockSeconds = 2.0;

// The settings that may not change when a run is resumed: its state or its sample order depends on them.
constexpr std::array kBound = {
    "model.",         "data.seq_len",      "data.valid_fraction", "train.seed",   "train.global_batch_size",
    "optimizer.name", "precision.compute", "data.document_mask",  "data.packing", "data.temperature"};

bool is_bound(const std::string& key) {
  return key != "model.preset" && std::any_of(kBound.begin(), kBound.end(), [&](const std::string& bound) {
           return bound.back() == '.' ? key.starts_with(bound) : key == bound;
         });
}

std::string value_of(const Config& config, const std::string& key) {
  const size_t dot = key.find('.');
  return nlohmann::json::parse(config_to_json(config)).at(key.substr(0, dot)).at(key.substr(dot + 1)).dump();
}

// " (process 4711)", or "" where the process is not known.
std::string holder_of(const std::string& run_folder) {
  if (const auto pid = lock_holder(run_folder)) return fmt::format(" (process {})", *pid);
  const auto status = run_status(system_env(), run_folder);  // on another machine
  if (!status || status->status != "running" || status->pid == 0) return "";
  return fmt::format(" (process {} on {})", status->pid, status->host);
}

}  // namespace

std::string run_identity(const RunFolder& folder) {
  return fmt::format("{:016x}", hash64(std::filesystem::absolute(folder.path).string()));
}

void check_run_format(Env& env, const std::string& run_folder) {
  const std::string path = join_path(run_folder, "env.json");
  if (!env.exists(path)) return;
  const auto json = nlohmann::json::parse(env.read_text(path), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;  // torn: its checkpoints say what it is
  const auto format = json.find("format");
  check_format(run_folder, format != json.end() && format->is_number_integer() ? format->get<int64_t>() : 1,
               kRunFormat, "give the new run another train.name");
}

FolderLock lock_run(const std::string& run_folder) {
  for (const double deadline = now_seconds() + kLockSeconds;;) {
    if (auto lock = FolderLock::try_take(run_folder)) return std::move(*lock);
    if (now_seconds() >= deadline)
      fail("'{}': another process trains this run{}", run_folder, holder_of(run_folder));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

namespace {

enum class Which : uint8_t { said, derived };  // by the user, or from other settings

// Refuses the first bound setting of those that differs. `what`: how it differs.
void refuse_changes(
    Which which, const Config& then, const Config& now, const std::string& what, const std::string& hint,
    const std::function<bool(const std::string& key)>& is_free = [](const std::string&) { return false; }) {
  for (const std::string& key : different_keys(then, now)) {
    if (!is_bound(key) || is_free(key)) continue;
    const auto origin = now.origins.find(key);
    const bool derived = origin != now.origins.end() && origin->second.kind == Origin::Kind::derived;
    if (derived == (which == Which::derived))
      throw ConfigError(
          fmt::format("{}: {}: got {}, expected {}", key, what, value_of(now, key), value_of(then, key)),
          hint);
  }
}

// Phases that are done stay as they are, and of one that has begun all but its length.
void check_phases(const Config& then, const Config& now, int64_t step, const std::string& hint) {
  const std::vector<PhaseConfig> before = phases_of(then), after = phases_of(now);
  if (then.phases.empty() && now.phases.empty()) return;
  for (size_t i = 0; i < before.size() && before[i].first_step <= step; ++i) {
    const PhaseConfig& was = before[i];
    const bool done = was.last_step <= step;
    const std::string what = was.name.empty() ? "the run, which had no phases" : "phase '" + was.name + "'";
    const auto refuse = [&](const std::string& got, const std::string& expected) {
      throw ConfigError(
          fmt::format("phase: changed since the run '{}' was started: {} {}: got {}, expected {}",
                      now.train.name, what, done ? "is done" : "has begun", got, expected),
          hint);
    };
    if (i >= after.size())
      refuse("no such phase", fmt::format("steps {} to {}", was.first_step, was.last_step));
    const PhaseConfig& is = after[i];
    if (is.name != was.name) refuse("'" + is.name + "' in its place", "'" + was.name + "'");
    if (done && is.last_step != was.last_step)
      refuse(fmt::format("steps {} to {}", is.first_step, is.last_step),
             fmt::format("steps {} to {}", was.first_step, was.last_step));
    refuse_changes(Which::said, was.config, is.config,
                   fmt::format("changed since the run '{}' was started: {} {}", now.train.name, what,
                               done ? "is done" : "has begun"),
                   hint);
  }
}

}  // namespace

void check_resumable(const Config& then, const Config& now, int64_t step, const std::string& data_then,
                     const std::string& data_now) {
  const char* const hint =
      "give the new run another train.name, or start from the old one's weights with train.init_from";
  const std::string changed = fmt::format("changed since the run '{}' was started", now.train.name);
  check_phases(then, now, step, hint);
  refuse_changes(Which::said, then, now, changed, hint);
  if (data_then != data_now)
    throw ConfigError(
        fmt::format("{} since the run '{}' was started", data_change(data_then, data_now), now.train.name),
        hint);
  // What the user has not said is named last.
  refuse_changes(Which::derived, then, now, changed, hint);
}

void check_continues(const Config& then, const Config& now, const std::string& from) {
  for (const Which which : {Which::said, Which::derived})
    refuse_changes(which, then, now, fmt::format("--from '{}' has another", from),
                   "train.init_from takes its weights alone", [](const std::string& key) {
                     return key.starts_with("data.") || key == "train.global_batch_size" ||
                            key.starts_with("model.rope_");
                   });
}

}  // namespace athanor::run
