#include "athanor/launch/process_end.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

extern "C" {  // glibc 2.36 forgot it
#include <sys/pidfd.h>
}

#include "athanor/control/descriptor.h"

namespace athanor::launch {
namespace {

// Of linux/pidfd.h, which older headers do not have.
struct PidfdInfo {
  uint64_t mask, cgroup;
  uint32_t ids[11];
  int32_t exit_code;
};
constexpr unsigned long kPidfdGetInfo = _IOWR(0xFF, 11, PidfdInfo);
constexpr uint64_t kPidfdInfoExit = uint64_t{1} << 3;

ProcessEnd end_of_status(int status) {
  if (WIFSIGNALED(status)) return {.signal_number = WTERMSIG(status)};
  return {.exit_code = WEXITSTATUS(status)};
}

std::optional<ProcessEnd> ask_pidfd(int process_fd) {
  PidfdInfo info{};
  info.mask = kPidfdInfoExit;
  if (ioctl(process_fd, kPidfdGetInfo, &info) != 0 || (info.mask & kPidfdInfoExit) == 0) return std::nullopt;
  return end_of_status(info.exit_code);
}

// The last field of the line. A process that is there still has not been asked by its parent: the number is still its own.
std::optional<ProcessEnd> ask_proc(pid_t pid) {
  const control::Descriptor file(open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  char line[2048] = {};
  if (file.get() < 0 || read(file.get(), line, sizeof(line) - 1) <= 0) return std::nullopt;
  const char* after = std::strrchr(line, ')');
  if (after == nullptr || after[1] == '\0' || (after[2] != 'Z' && after[2] != 'X')) return std::nullopt;
  const char* last = std::strrchr(after, ' ');
  return end_of_status(static_cast<int>(std::strtol(last, nullptr, 10)));
}

}  // namespace

ProcessEnd wait_for_end(int process_fd, pid_t pid) {
  pollfd ended{process_fd, POLLIN, 0};
  while (poll(&ended, 1, -1) < 0 && errno == EINTR) continue;
  siginfo_t info{};
  int code = 0;
  while ((code = waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(process_fd), &info, WEXITED)) !=
             0 &&
         errno == EINTR)
    continue;
  if (code == 0)
    return info.si_code == CLD_EXITED ? ProcessEnd{.exit_code = info.si_status}
                                      : ProcessEnd{.signal_number = info.si_status};
  for (int time = 0; time < 2; ++time) {  // its parent may ask between the two
    if (const auto end = ask_pidfd(process_fd)) return *end;
    if (const auto end = ask_proc(pid)) return *end;
  }
  return {};
}

void kill_and_wait(int process_fd, pid_t pid) {
  pidfd_send_signal(process_fd, SIGKILL, nullptr, 0);
  wait_for_end(process_fd, pid);
}

}  // namespace athanor::launch
