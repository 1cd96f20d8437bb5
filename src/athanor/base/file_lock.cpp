#include "athanor/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "athanor/base/check.h"
#include "athanor/base/interrupted.h"

namespace athanor::base {
namespace {

int lock(int fd, int operation) {
  int result = 0;
  do {
    result = ::flock(fd, operation);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

int lock_or_stop(int fd, const std::atomic<int>& stop) {
  constexpr std::chrono::milliseconds kPause{20};
  int code = EWOULDBLOCK;
  while (code == EWOULDBLOCK && stop.load() == 0) {
    std::this_thread::sleep_for(kPause);
    code = lock(fd, LOCK_EX | LOCK_NB);
  }
  return code == EWOULDBLOCK ? ECANCELED : code;
}

}  // namespace

FileLock::FileLock(const std::string& path, const std::function<void()>& on_wait,
                   const std::atomic<int>* stop) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0)
    throw IoError(fmt::format("cannot create '{}': {}", path, std::strerror(errno)), errno,
                  "set data.cache to a folder that can be written");
  int code = lock(fd_, LOCK_EX | LOCK_NB);
  if (code == EWOULDBLOCK) {
    if (on_wait) on_wait();
    code = stop == nullptr ? lock(fd_, LOCK_EX) : lock_or_stop(fd_, *stop);
  }
  if (code == ECANCELED) {
    ::close(fd_);
    throw Interrupted("waiting for another process that tokenizes was interrupted");
  }
  if (code != 0) {
    ::close(fd_);
    throw IoError(fmt::format("cannot lock '{}': {}", path, std::strerror(code)), code);
  }
}

FileLock::~FileLock() {
  ::close(fd_);
}

}  // namespace athanor::base
