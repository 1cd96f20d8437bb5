#include "console_stream.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace athanor::apps {
namespace {

constexpr int kPatienceMs =
    1000;  // with a reader that is behind, where the descriptor does not wait by itself

// A pipe without a reader, a terminal that has hung up, a descriptor that is none.
bool is_gone(int code) {
  return code == EPIPE || code == EIO || code == ENXIO || code == EBADF;
}

}  // namespace

void ConsoleStream::write(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (is_gone(error_)) return;
  while (!text.empty()) {
    const ssize_t written = ::write(fd_, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
      continue;
    }
    if (errno == EINTR) continue;
    pollfd ready{fd_, POLLOUT, 0};
    if (errno == EAGAIN && poll(&ready, 1, kPatienceMs) > 0) continue;
    error_ = errno;
    return;
  }
}

bool ConsoleStream::is_lost() const {
  const std::lock_guard lock(mutex_);
  return is_gone(error_);
}

int ConsoleStream::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace athanor::apps
