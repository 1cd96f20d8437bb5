// A lock that processes and threads share through a file. The system frees it when its holder dies.
//
//   const FileLock lock(path, [&] { tell("waiting"); });   // held until the end of the scope
//
// The empty file stays: if it were removed, two holders could lock two files of the same name. Thread rule: two
// FileLocks of one path exclude each other, in any threads or processes. Errors: IoError naming the path; Interrupted
// if `stop` becomes nonzero while another holder has the lock.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::base {

class FileLock {
 public:
  // on_wait runs once, if another holder has the lock.
  FileLock(const std::string& path, const std::function<void()>& on_wait,
           const std::atomic<int>* stop = nullptr);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace athanor::base
