#include "athanor/data/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "athanor/base/check.h"

namespace athanor {
namespace {

int lock(int fd, int operation) {
  int result = 0;
  do {
    result = ::flock(fd, operation);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

}  // namespace

FileLock::FileLock(const std::string& path, const std::function<void()>& on_wait) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0)
    throw IoError(fmt::format("cannot create '{}': {}", path, std::strerror(errno)), errno,
                  "set data.cache to a folder that can be written");
  int code = lock(fd_, LOCK_EX | LOCK_NB);
  if (code == EWOULDBLOCK) {
    if (on_wait) on_wait();
    code = lock(fd_, LOCK_EX);
  }
  if (code != 0) {
    ::close(fd_);
    throw IoError(fmt::format("cannot lock '{}': {}", path, std::strerror(code)), code);
  }
}

FileLock::~FileLock() {
  ::close(fd_);
}

}  // namespace athanor
