// A lock that processes and threads share through a file; the system frees it when its holder dies.
//
//   const FileLock lock(path, [&] { tell("waiting"); });   // held until the end of the scope
//
// The file stays behind, empty: removing it would let two holders lock two files of the same name.
// Thread rule: two FileLocks exclude each other wherever they live. Errors: IoError naming the path; Interrupted where
// `stop` is no longer zero while somebody else holds it.
#pragma once

#include <atomic>
#include <functional>
#include <string>

namespace athanor {

class FileLock {
 public:
  // on_wait runs once, where somebody else holds the lock.
  FileLock(const std::string& path, const std::function<void()>& on_wait,
           const std::atomic<int>* stop = nullptr);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace athanor
