#include "athanor/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

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

int operation_of(FileLock::Mode mode) {
  return mode == FileLock::Mode::shared ? LOCK_SH : LOCK_EX;
}

int lock_or_stop(int fd, int operation, const std::atomic<int>& stop) {
  constexpr std::chrono::milliseconds kPause{20};
  int code = EWOULDBLOCK;
  while (code == EWOULDBLOCK && stop.load() == 0) {
    std::this_thread::sleep_for(kPause);
    code = lock(fd, operation | LOCK_NB);
  }
  return code == EWOULDBLOCK ? ECANCELED : code;
}

}  // namespace

FileLock::FileLock(std::string path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0)
    throw IoError(fmt::format("cannot create '{}': {}", path_, std::strerror(errno)), errno,
                  "set data.cache to a folder that can be written");
}

FileLock::FileLock(const std::string& path, const std::function<void()>& on_wait,
                   const std::atomic<int>* stop, Mode mode)
    : FileLock(path) {  // from here on the destructor closes the file
  int code = lock(fd_, operation_of(mode) | LOCK_NB);
  if (code == EWOULDBLOCK) {
    if (on_wait) on_wait();
    code = stop == nullptr ? lock(fd_, operation_of(mode)) : lock_or_stop(fd_, operation_of(mode), *stop);
  }
  if (code == ECANCELED) throw Interrupted("waiting for another process that tokenizes was interrupted");
  if (code != 0) throw IoError(fmt::format("cannot lock '{}': {}", path, std::strerror(code)), code);
}

std::unique_ptr<FileLock> FileLock::try_lock(const std::string& path, Mode mode) {
  std::unique_ptr<FileLock> file(new FileLock(path));
  const int code = lock(file->fd_, operation_of(mode) | LOCK_NB);
  if (code == EWOULDBLOCK) return nullptr;
  if (code != 0) throw IoError(fmt::format("cannot lock '{}': {}", path, std::strerror(code)), code);
  return file;
}

bool FileLock::is_current() const {
  struct stat mine {
  }, there{};
  return ::fstat(fd_, &mine) == 0 && ::stat(path_.c_str(), &there) == 0 && mine.st_dev == there.st_dev &&
         mine.st_ino == there.st_ino;
}

FileLock::~FileLock() {
  ::close(fd_);
}

}  // namespace athanor::base
