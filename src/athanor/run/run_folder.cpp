#include "athanor/run/run_folder.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/format_version.h"
#include "athanor/config/print.h"
#include "athanor/run/resume_changes.h"
#include "athanor/run/run_history.h"

namespace athanor::run {
namespace {

constexpr double kLockSeconds = 2.0;

// The settings that may not change when a run is resumed: its state or its sample order depends on them.
constexpr std::array kBound = {
    "model.",         "data.seq_len",      "data.valid_fraction", "train.seed", "train.global_batch_size",
    "optimizer.name", "precision.compute", "data.document_mask"};

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

void check_resumable(const Config& then, const Config& now, const std::string& data_then,
                     const std::string& data_now) {
  const char* const hint =
      "give the new run another train.name, or start from the old one's weights with train.init_from";
  const auto refuse = [&](const std::string& key) {
    throw ConfigError(fmt::format("{}: changed since the run '{}' was started: got {}, expected {}", key,
                                  now.train.name, value_of(now, key), value_of(then, key)),
                      hint);
  };
  // A value derived from other settings is not what the user changed, so it is not named first.
  std::vector<std::string> derived;
  for (const std::string& key : different_keys(then, now)) {
    if (!is_bound(key)) continue;
    const auto origin = now.origins.find(key);
    if (origin == now.origins.end() || origin->second.kind != Origin::Kind::derived) refuse(key);
    derived.push_back(key);
  }
  if (data_then != data_now) {
    throw ConfigError(
        fmt::format("{} since the run '{}' was started", data_change(data_then, data_now), now.train.name),
        hint);
  }
  if (!derived.empty()) refuse(derived.front());
}

}  // namespace athanor::run
