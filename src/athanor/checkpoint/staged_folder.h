// A folder that appears whole or not at all: written under a hidden name beside its place, then renamed.
//
//   StagedFolder staged(env, "runs/a/checkpoints/step_00000100");
//   ... write and sync files in staged.path() ...
//   staged.commit();   // syncs the folder, moves an old one away, renames, syncs the parent
//
// The names in the parent folder while this happens:
//   .step_00000100.tmp-0123456789abcdef   being written; a leftover where its writer died
//   .step_00000100.replaced               the old one, between its moving away and its removal
//   .step_00000100.removed                on its way out
// A lock (flock) on the parent, which the system drops when its holder dies, tells a live writer from a dead
// one: whoever holds it may clean up. Errors: IoError from the system, and where another writer holds the lock. Thread rule:
// one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/file.h"

namespace athanor {

class FolderLock {
 public:
  // None where someone else holds it or the file system has no locks for folders.
  static std::optional<FolderLock> try_take(const std::string& folder);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

// The process of this machine that holds the lock of a folder; none where nobody does or the system does not tell.
std::optional<int64_t> lock_holder(const std::string& folder);

class StagedFolder {
 public:
  StagedFolder(Env& env, const std::string& final_path);
  ~StagedFolder();  // removes what was not committed
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  const std::string& path() const { return path_; }
  uint64_t token() const { return token_; }  // from which other ranks know path(): staged_path(final, token)
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

// Removes a finished folder so that a kill never leaves half of it under its name.
void remove_folder(Env& env, const std::string& path);

// With the parent's lock held: puts back a folder that died between moving away and renaming, and removes all
// other leftovers of `name`. What cannot be removed is hidden and stays until the next call: `stuck` gets a line.
void clean_leftovers(Env& env, const std::string& parent, const std::string& name,
                     std::vector<std::string>* stuck = nullptr);
// The name a hidden folder of the parent stands for ("step_00000100"), none where it is not one of ours.
std::optional<std::string> staged_for(const std::string& hidden_name);

}  // namespace athanor
