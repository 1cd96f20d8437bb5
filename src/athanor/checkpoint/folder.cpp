// Folders of checkpoints: list them, find the newest good one, remove old ones.
#include <algorithm>
#include <charconv>

#include "athanor/base/check.h"
#include "athanor/base/format_version.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/format/manifest.h"
#include "athanor/checkpoint/format/staged_folder.h"
#include "athanor/checkpoint/format/steady_read.h"

namespace athanor::checkpoint {
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

// The checkpoint folder of a run; any other folder as it is.
std::string checkpoints_of(Env& env, const std::string& folder) {
  const std::string inner = join_path(folder, "checkpoints");
  return env.is_folder(inner) ? inner : folder;
}

// The result of reading and verifying a whole checkpoint.
struct Verdict {
  enum class Kind { good, damaged, vanished } kind;
  int64_t step = 0;    // if it is good
  std::string reason;  // if it is not
};

Verdict examine(Env& env, const std::string& path) {
  const StandingCheckpoint standing(env, path);
  try {
    const Checkpoint checkpoint = Checkpoint::open(env, path);
    checkpoint.verify();
    return {Verdict::Kind::good, checkpoint.step(), ""};
  } catch (const FormatError&) {
    if (standing.still_stands()) throw;  // it is whole, and no older one stands in for it
    return {Verdict::Kind::vanished, 0, ""};
  } catch (const Failure& error) {
    const bool stands = standing.still_stands();
    return {stands ? Verdict::Kind::damaged : Verdict::Kind::vanished, 0, error.what()};
  }
}

// The step in a folder's name; none where the name has no step.
std::optional<int64_t> named_step(const std::string& path) {
  const std::string name = path.substr(path.find_last_of('/') + 1);
  return step_of(staged_for(name).value_or(name));
}

// Finds the newest of `paths` by the steps that the checkpoints hold. False: one vanished meanwhile.
bool find_newest(Env& env, const std::vector<std::string>& paths, bool last_attempt,
                 std::optional<std::string>& newest, std::vector<std::string>& notes) {
  std::vector<std::pair<int64_t, std::string>>
      renamed;  // good ones that hold another step than their names say
  int64_t newest_step = -1;
  for (auto path = paths.rbegin(); path != paths.rend() && !newest; ++path) {
    const Verdict found = examine(env, *path);
    if (found.kind == Verdict::Kind::vanished && !last_attempt) return false;
    if (found.kind != Verdict::Kind::good) {
      notes.push_back(fmt::format("checkpoint {} is skipped: {}", *path, found.reason));
    } else if (named_step(*path).value_or(found.step) != found.step) {
      renamed.emplace_back(found.step, *path);
    } else {
      newest = *path;
      newest_step = found.step;
    }
  }
  for (const auto& [step, path] : renamed)
    if (step > newest_step) {
      newest = path;
      newest_step = step;
    }
  for (const auto& [step, path] : renamed)
    notes.push_back(path == *newest
                        ? fmt::format("checkpoint {} holds step {}: its name and its step differ", path, step)
                        : fmt::format("checkpoint {} is skipped: it holds step {} only", path, step));
  return true;
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
    // A checkpoint that was moved away for a replacement that never came.
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
  for (int attempt = 1;; ++attempt) {
    const auto paths = list_checkpoints(env, folder);
    if (paths.empty() && attempt == 1) continue;  // a listing during a replacement may miss both
    std::optional<std::string> newest;
    std::vector<std::string> notes;
    if (!find_newest(env, paths, attempt == kReadAttempts, newest, notes)) continue;
    if (skipped != nullptr) skipped->insert(skipped->end(), notes.begin(), notes.end());
    return newest;
  }
}

std::vector<std::string> rotate_checkpoints(Env& env, const std::string& folder, int64_t keep,
                                            const std::string& known_good) {
  check(keep >= 0, "checkpoint: got keep {}, expected it from zero up", keep);
  if (!env.is_folder(folder) || env.exists(join_path(folder, kManifestName))) return {};
  const std::string parent = checkpoints_of(env, folder);
  const auto lock = FolderLock::try_take(parent);
  if (!lock) return {};
  std::vector<std::string> stuck;
  for (const std::string& name : env.list(parent)) {
    const auto stands_for = staged_for(name);
    if (stands_for && step_of(*stands_for)) clean_leftovers(env, parent, *stands_for, &stuck);
  }
  const auto paths = list_checkpoints(env, parent);
  const auto kept = static_cast<size_t>(keep);
  if (kept == 0 || paths.size() <= kept) return stuck;
  const bool known = std::find(paths.begin(), paths.end(), known_good) != paths.end();
  const auto newest = known ? known_good : newest_checkpoint(env, parent, nullptr);
  for (size_t i = 0; i + kept < paths.size(); ++i) {
    if (!newest || paths[i] == *newest) continue;
    try {
      remove_folder(env, paths[i]);
    } catch (const IoError& error) {
      stuck.push_back(fmt::format("the old checkpoint '{}' stays: {}", paths[i], error.what()));
    }
  }
  return stuck;
}

}  // namespace athanor::checkpoint
