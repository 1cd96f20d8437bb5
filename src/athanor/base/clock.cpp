#include "athanor/base/clock.h"

#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace athanor::base {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double now_seconds() {
  return static_cast<double>(now_ns()) * 1e-9;
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double process_age_seconds() {
  // /proc/self/stat: field 22 is the start time in clock ticks since boot; fields are counted after the
  // closing bracket of the program's name, which may hold spaces.
  char text[1024] = {};
  std::FILE* file = std::fopen("/proc/self/stat", "r");
  if (file == nullptr) return 0.0;
  const size_t got = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[got] = 0;
  const char* field = std::strrchr(text, ')');
  for (int skip = 0; field != nullptr && skip < 20; ++skip) field = std::strchr(field + 1, ' ');
  if (field == nullptr) return 0.0;
  const double start = std::strtod(field, nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
  timespec boot{};
  clock_gettime(CLOCK_BOOTTIME, &boot);
  return static_cast<double>(boot.tv_sec) + static_cast<double>(boot.tv_nsec) * 1e-9 - start;
}

}  // namespace athanor::base
