// A folder that appears complete or not at all: written under a hidden name beside its final path, then renamed.
//
//   StagedFolder staged(env, "runs/a/checkpoints/step_00000100");
//   ... write and sync files in staged.path() ...
//   staged.commit();   // syncs the folder, moves an old one away, renames, syncs the parent
//
// The names in the parent folder while this happens:
//   .step_00000100.tmp-0123456789abcdef   being written; a leftover if its writer died
//   .step_00000100.replaced               the old folder, after it was moved away and before it is removed
//   .step_00000100.removed                being removed
// A lock (flock) on the parent tells a live writer from a dead one, because the system drops it when its holder dies.
// Whoever holds the lock may clean up. Errors: IoError from the system, and where another writer holds the lock. Thread
// rule: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/file.h"

namespace athanor::checkpoint::format {

class FolderLock {
 public:
  // None where another process holds the lock, or the file system does not support locks on folders.
  static std::optional<FolderLock> try_take(const std::string& folder);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

// The process of this machine that holds the lock of a folder; none where it is free or the system does not say.
std::optional<int64_t> lock_holder(const std::string& folder);

class StagedFolder {
 public:
  StagedFolder(Env& env, const std::string& final_path);
  ~StagedFolder();  // removes what was not committed
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  const std::string& path() const { return path_; }
  uint64_t token() const { return token_; }  // other ranks get path() from it: staged_path(final_path, token)
  void commit();

 private:
  Env& env_;
  std::string final_path_, path_;
  uint64_t token_ = 0;
  FolderLock lock_;
  bool done_ = false;
};

std::string staged_path(const std::string& final_path, uint64_t token);
std::string replaced_path(const std::string& final_path);

// Removes a complete folder so that a kill never leaves a part of it under its name.
void remove_folder(Env& env, const std::string& path);

// With the parent's lock held: restores a folder whose replacement died before its rename, and removes all other
// leftovers of `name`. A leftover that cannot be removed stays hidden until the next call; `stuck` gets a line for it.
void clean_leftovers(Env& env, const std::string& parent, const std::string& name,
                     std::vector<std::string>* stuck = nullptr);
// The name that a hidden folder stands for ("step_00000100"); none where it is not one of the names above.
std::optional<std::string> staged_for(const std::string& hidden_name);

}  // namespace athanor::checkpoint::format
