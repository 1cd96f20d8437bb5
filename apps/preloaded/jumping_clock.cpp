// athanor_clock.so, which LD_PRELOAD brings into the processes of a trial of chaos: their clocks go wrong by what stands in the
// file that ATHANOR_CLOCK_FILE names, two numbers of nanoseconds for the launcher and then for each rank (RANK): of the wall
// clock, and of all others. Whoever changes them there makes the clocks jump.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

constexpr int64_t kSecond = 1'000'000'000;

struct Jump {
  std::atomic<int64_t> wall, other;
};

// null: not a process of a trial
const Jump* map_jump() {
  const char* path = std::getenv("ATHANOR_CLOCK_FILE");
  if (path == nullptr) return nullptr;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  const char* rank = std::getenv("RANK");
  const off_t size = lseek(fd, 0, SEEK_END), at = rank == nullptr ? 0 : std::atoi(rank) + 1;
  void* mapped = mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped == MAP_FAILED || (at + 1) * static_cast<off_t>(sizeof(Jump)) > size) return nullptr;
  return static_cast<const Jump*>(mapped) + at;
}

using ClockGettime = int (*)(clockid_t, timespec*);

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto real = reinterpret_cast<ClockGettime>(dlsym(RTLD_NEXT, "clock_gettime"));
  static const Jump* const jump = map_jump();
  const int code = real(clock, time);
  if (code != 0 || jump == nullptr) return code;
  const bool is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  const bool is_monotonic = clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME;
  if (!is_wall && !is_monotonic) return code;
  const int64_t ns = time->tv_sec * kSecond + time->tv_nsec + (is_wall ? jump->wall : jump->other);
  time->tv_sec = ns / kSecond;
  time->tv_nsec = ns % kSecond;
  return code;
}

extern "C" int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  const int code = clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return code;
}

extern "C" time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}
