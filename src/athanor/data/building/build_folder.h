// The folder of an unfinished token file, PREFIX.build: what its builders have done so far, and who does what.
//
//   BuildFolder folder(env, "data/en.build", key, {.stop = &stop, .on_wait = say_waiting});
//   if (!folder.is_done(group, part))
//     if (const auto mine = folder.try_part(group, part)) make(folder.part_prefix(group, part));
//   folder.mark_published();                         // then the last one to leave removes the folder
//
// Processes with the same key, on one machine or on several that share the disk, work on the same parts: each part is a
// token file of its own, whole as soon as its .idx is there, and is made by who has its lock. The system frees the locks
// of a process that dies. A folder of another key is emptied, once nobody works there. An empty key shares with nobody:
// such a build keeps nothing for a later one.
//
// Locks: `door` is held for moments, to enter and to leave; `at work` is shared by all that work here. Whoever holds it
// alone may empty the folder. Where a file system does not lock, work is done twice at worst, with the same bytes.
//
// Thread rule: one thread. Errors: IoError; Interrupted where `stop` is set while it waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "athanor/base/file.h"
#include "athanor/base/file_lock.h"
#include "athanor/data/tokenize.h"

namespace athanor::data::building {

// What is known of a group once it was read to its end.
struct GroupRecord {
  int64_t parts = 0;
  TokenFileInfo info;  // documents, bytes and what was read
};

struct BuildFolderOptions {
  const std::atomic<int>* stop = nullptr;
  std::function<void()> on_wait = {};
};

class BuildFolder {
 public:
  enum class Begin { fresh, goes_on, anew };  // anew: what was there is of another key

  BuildFolder(Env& env, std::string folder, const std::string& key, const BuildFolderOptions& options);
  // Leaves. The last one to leave removes the folder if it is published or has no part that is done.
  ~BuildFolder();
  BuildFolder(const BuildFolder&) = delete;
  BuildFolder& operator=(const BuildFolder&) = delete;

  Begin begin() const { return begin_; }
  int64_t num_parts_done() const;
  std::string path(const std::string& name) const { return join_path(folder_, name); }

  std::string part_prefix(int64_t group, int64_t part) const;
  bool is_done(int64_t group, int64_t part) const { return env_.exists(part_prefix(group, part) + ".idx"); }
  // Null where another process is at it.
  std::unique_ptr<FileLock> try_part(int64_t group, int64_t part) const;
  void wait_for_part(int64_t group, int64_t part) const;
  std::unique_ptr<FileLock> try_group(int64_t group) const;
  // For who puts the parts together.
  FileLock lock_publishing() const;

  std::optional<GroupRecord> group(int64_t group) const;  // none before it was read to its end
  void save_group(int64_t group, const GroupRecord& record) const;

  bool is_published() const { return env_.exists(path("published")); }
  void mark_published() const;

 private:
  bool enter(const std::string& key);
  void empty() const;
  std::string group_name(int64_t group) const;

  Env& env_;
  std::string folder_;
  BuildFolderOptions options_;
  Begin begin_ = Begin::fresh;
  std::unique_ptr<FileLock> at_work_;
};

}  // namespace athanor::data::building

namespace athanor {
using athanor::data::building::BuildFolder;
}  // namespace athanor
