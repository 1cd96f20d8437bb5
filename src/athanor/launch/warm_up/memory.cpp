#include "athanor/launch/warm_up/memory.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/human.h"
#include "athanor/base/median.h"

namespace athanor::launch::warm_up {
namespace {

constexpr size_t kHalfBytes = size_t{16} << 20;
constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr int64_t kLimitNs = 5'000'000;

std::string limit() {
  rlimit of_process{};
  if (getrlimit(RLIMIT_AS, &of_process) != 0 || of_process.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format("; the process may have {} (RLIMIT_AS, ulimit -v)",
                     human_bytes(static_cast<double>(of_process.rlim_cur)));
}

// Unlike what malloc gives, all of it goes back to the system, and none of it has been touched before.
class Pages {
 public:
  Pages() : data_(mmap(nullptr, 2 * kHalfBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED)
      throw IoError(
          fmt::format("no memory for {}: {}{}", human_bytes(2.0 * kHalfBytes), std::strerror(errno), limit()),
          errno);
  }
  ~Pages() { munmap(data_, 2 * kHalfBytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_;
};

}  // namespace

double measure_memory() {
  const Pages pages;
  std::memset(pages.data(), 1, 2 * kHalfBytes);
  std::vector<double> times_ns;
  const int64_t until_ns = now_ns() + kLimitNs;
  for (size_t at = 0; now_ns() < until_ns || times_ns.empty(); at = (at + kPieceBytes) % kHalfBytes) {
    const int64_t before_ns = now_ns();
    std::memcpy(pages.data() + kHalfBytes + at, pages.data() + at, kPieceBytes);
    times_ns.push_back(static_cast<double>(now_ns() - before_ns));
  }
  return static_cast<double>(kPieceBytes) / std::max(median(std::move(times_ns)), 1.0);
}

}  // namespace athanor::launch::warm_up
