// A lock that processes and threads share through a file. The system frees it when its holder dies.
//
//   const FileLock lock(path, [&] { tell("waiting"); });   // held until the end of the scope
//   if (const auto lock = FileLock::try_lock(path)) work();
//
// A lock is exclusive, or shared with others that are shared. The empty file stays: if it were removed, two holders could lock two files of the same name
// (is_current() tells). Thread rule: two
// FileLocks of one path exclude each other, in any threads or processes. Errors: IoError naming the path; Interrupted
// if `stop` becomes nonzero while another holder has the lock.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::base {

class FileLock {
 public:
  enum class Mode { exclusive, shared };
  // on_wait runs once, if another holder has the lock.
  FileLock(const std::string& path, const std::function<void()>& on_wait,
           const std::atomic<int>* stop = nullptr, Mode mode = Mode::exclusive);
  // Null where another holder has the lock.
  static std::unique_ptr<FileLock> try_lock(const std::string& path, Mode mode = Mode::exclusive);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  bool is_current() const;  // its file is still the one of its path

 private:
  explicit FileLock(std::string path);  // opens the file

  std::string path_;
  int fd_ = -1;
};

}  // namespace athanor::base
