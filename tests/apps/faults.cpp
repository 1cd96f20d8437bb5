// Loaded into the program by LD_PRELOAD: kills it at, or fills its disk from, its N-th file operation. So a
// kill can be placed between any two of them, and a disk fills up where no small file system can be mounted.
//
//   ATHANOR_FAULT=kill:37     SIGKILL instead of the 37th operation
//   ATHANOR_FAULT=full:12     from the 12th on, everything that needs room on the disk fails with ENOSPC
//   ATHANOR_FAULT=full:12-30  the same until the 30th
//   ATHANOR_FAULT=hold:NAME   each write to a file with NAME in its path waits until the file is there that
//                             ATHANOR_FAULT_UNTIL names
//   ATHANOR_FAULT=tiles:none  the system gives out no tile registers (AMX)
//   ATHANOR_FAULT=bind:none   the system refuses to bind threads to processors
//   ATHANOR_FAULT=count:FILE  no fault: writes the number of operations into FILE at the end
//   ATHANOR_FAULT_RANK=1      only in the process whose RANK this is
//
// An operation is a call that changes the file system: writing to a regular file, syncing, renaming, making
// and removing names.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

enum class Fault { none, kill, full, hold, count, tiles, bind };

struct Plan {
  Plan() {
    const char* fault = std::getenv("ATHANOR_FAULT");
    const char* wanted = std::getenv("ATHANOR_FAULT_RANK");
    const char* rank = std::getenv("RANK");
    if (fault == nullptr) return;
    if (wanted != nullptr && (rank == nullptr || std::strcmp(rank, wanted) != 0)) return;
    argument = std::strchr(fault, ':') + 1;
    kind = fault[0] == 'k'   ? Fault::kill
           : fault[0] == 'f' ? Fault::full
           : fault[0] == 'h' ? Fault::hold
           : fault[0] == 't' ? Fault::tiles
           : fault[0] == 'b' ? Fault::bind
                             : Fault::count;
  }
  Fault kind = Fault::none;
  const char* argument = "";
};

const Plan& plan() {
  static const Plan the_plan;
  return the_plan;
}
std::atomic<long> operations{0};

// True if this operation, which needs room, must fail.
bool operation(bool needs_room) {
  const long number = ++operations;
  if (plan().kind == Fault::kill && number == std::atol(plan().argument)) raise(SIGKILL);
  const char* const dash = std::strchr(plan().argument, '-');
  const bool is_over = dash != nullptr && number > std::atol(dash + 1);
  return needs_room && plan().kind == Fault::full && number >= std::atol(plan().argument) && !is_over;
}

template <typename Function>
Function original(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool is_regular(int fd) {
  struct stat info {};
  return fd > STDERR_FILENO && fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

void hold(int fd) {
  const char* const until = std::getenv("ATHANOR_FAULT_UNTIL");
  if (plan().kind != Fault::hold || until == nullptr) return;
  char link[64], path[4096];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  path[std::max<ssize_t>(length, 0)] = '\0';
  if (std::strstr(path, plan().argument) == nullptr) return;
  while (access(until, F_OK) != 0) poll(nullptr, 0, 1);
}

int no_room() {
  errno = ENOSPC;
  return -1;
}

__attribute__((destructor)) void write_count() {
  if (plan().kind != Fault::count) return;
  if (std::FILE* file = std::fopen(plan().argument, "w")) {
    std::fprintf(file, "%ld", operations.load());
    std::fclose(file);
  }
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  static const auto next = original<ssize_t (*)(int, const void*, size_t)>("write");
  hold(fd);
  return is_regular(fd) && operation(size > 0) ? no_room() : next(fd, data, size);
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  static const auto next = original<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  hold(fd);
  return is_regular(fd) && operation(size > 0) ? no_room() : next(fd, data, size, offset);
}
int fsync(int fd) {
  static const auto next = original<int (*)(int)>("fsync");
  operation(false);
  return next(fd);
}
int fdatasync(int fd) {
  static const auto next = original<int (*)(int)>("fdatasync");
  operation(false);
  return next(fd);
}
int rename(const char* from, const char* to) noexcept {
  static const auto next = original<int (*)(const char*, const char*)>("rename");
  operation(false);
  return next(from, to);
}
int mkdir(const char* path, mode_t mode) noexcept {
  static const auto next = original<int (*)(const char*, mode_t)>("mkdir");
  return operation(true) ? no_room() : next(path, mode);
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  static const auto next = original<int (*)(int, const char*, int)>("unlinkat");
  operation(false);
  return next(folder, path, flags);
}
// The program asks for tile registers this way (base/cpu.cpp).
long syscall(long number, ...) noexcept {
  static const auto next = original<long (*)(long, long, long, long, long, long, long)>("syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  constexpr long kRequestPermission = 0x1023;
  if (plan().kind == Fault::tiles && number == SYS_arch_prctl && a[0] == kRequestPermission) return -1;
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
int sched_setaffinity(pid_t thread, size_t size, const cpu_set_t* set) noexcept {
  static const auto next = original<int (*)(pid_t, size_t, const cpu_set_t*)>("sched_setaffinity");
  if (plan().kind != Fault::bind) return next(thread, size, set);
  errno = EPERM;
  return -1;
}
int unlink(const char* path) noexcept {
  static const auto next = original<int (*)(const char*)>("unlink");
  operation(false);
  return next(path);
}

}  // extern "C"
