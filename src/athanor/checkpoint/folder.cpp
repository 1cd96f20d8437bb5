// Folders of checkpoints: what is there, which is the newest good one, which may go.
#include <algorithm>
#include <charconv>

#include "athanor/base/check.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/manifest.h"
#include "athanor/checkpoint/staged_folder.h"

namespace athanor {
namespace {

constexpr std::string_view kPrefix = "step_";
constexpr size_t kDigits = 8;

std::optional<int64_t> step_of(std::string_view name) {
  if (name.size() < kPrefix.size() + kDigits || name.substr(0, kPrefix.size()) != kPrefix)
    return std::nullopt;
  int64_t step = 0;
  const char* last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), last, step);
  if (error != std::errc() || end != last || step < 0) return std::nullopt;
  return step;
}

// Of a run, the folder of its checkpoints.
std::string checkpoints_of(Env& env, const std::string& folder) {
  const std::string inner = join_path(folder, "checkpoints");
  return env.is_folder(inner) ? inner : folder;
}

std::optional<std::string> why_bad(Env& env, const std::string& path) {
  try {
    Checkpoint::open(env, path).verify();
    return std::nullopt;
  } catch (const Failure& error) {
    return error.what();
  }
}

}  // namespace

std::string checkpoint_name(int64_t step) {
  return fmt::format("{}{:08d}", kPrefix, step);
}

std::vector<std::string> list_checkpoints(Env& env, const std::string& folder) {
  if (!env.is_folder(folder)) return {};
  if (env.exists(join_path(folder, kManifestName))) return {folder};
  const std::string parent = checkpoints_of(env, folder);
  std::vector<std::pair<int64_t, std::string>> found;
  for (const std::string& name : env.list(parent)) {
    const std::string path = join_path(parent, name);
    if (const auto step = step_of(name)) {
      if (env.is_folder(path)) found.emplace_back(*step, path);
      continue;
    }
    // One that was moved away for a new one that never came.
    const auto stands_for = staged_for(name);
    if (!stands_for || !step_of(*stands_for)) continue;
    const std::string final_path = join_path(parent, *stands_for);
    if (path == replaced_path(final_path) && !env.exists(final_path))
      found.emplace_back(*step_of(*stands_for), path);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  paths.reserve(found.size());
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::optional<std::string> newest_checkpoint(Env& env, const std::string& folder,
                                             std::vector<std::string>* skipped) {
  const auto paths = list_checkpoints(env, folder);
  for (auto path = paths.rbegin(); path != paths.rend(); ++path) {
    const auto reason = why_bad(env, *path);
    if (!reason) return *path;
    if (skipped != nullptr) skipped->push_back(fmt::format("checkpoint {} is skipped: {}", *path, *reason));
  }
  return std::nullopt;
}

void rotate_checkpoints(Env& env, const std::string& folder, int64_t keep, const std::string& known_good) {
  check(keep >= 0, "checkpoint: got keep {}, expected it from zero up", keep);
  if (!env.is_folder(folder) || env.exists(join_path(folder, kManifestName))) return;
  const std::string parent = checkpoints_of(env, folder);
  const auto lock = FolderLock::try_take(parent);
  if (!lock) return;
  for (const std::string& name : env.list(parent)) {
    const auto stands_for = staged_for(name);
    if (stands_for && step_of(*stands_for)) clean_leftovers(env, parent, *stands_for);
  }
  const auto paths = list_checkpoints(env, parent);
  const auto kept = static_cast<size_t>(keep);
  if (kept == 0 || paths.size() <= kept) return;
  const bool known = std::find(paths.begin(), paths.end(), known_good) != paths.end();
  const auto newest = known ? known_good : newest_checkpoint(env, parent, nullptr);
  for (size_t i = 0; i + kept < paths.size(); ++i)
    if (newest && paths[i] != *newest) remove_folder(env, paths[i]);
}

}  // namespace athanor
