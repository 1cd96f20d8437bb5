#include "athanor/chaos/fault_plan.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "athanor/base/check.h"
#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/control/descriptor.h"

namespace athanor::chaos {
namespace {

constexpr size_t kBytes = FaultPlan::kMostRanks * sizeof(int64_t);

}  // namespace

void FaultPlan::create(const std::string& path) {
  system_env().write_atomically(path, std::string(kBytes, '\0'));
}

FaultPlan::FaultPlan(const std::string& path) {
  const control::Descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0) throw_io_error("open", path, errno);
  const off_t size = lseek(file.get(), 0, SEEK_END);
  check(size == static_cast<off_t>(kBytes), "'{}': got {} bytes, expected the {} of a fault plan", path, size,
        kBytes);
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) throw_io_error("map", path, errno);
  steps_ = std::shared_ptr<int64_t>(static_cast<int64_t*>(memory),
                                    [](int64_t* mapped) { munmap(mapped, kBytes); });
}

int64_t& FaultPlan::of(int rank) const {
  check(rank >= 0 && static_cast<size_t>(rank) < kMostRanks, "fault plan: got rank {}, expected 0 to {}",
        rank, kMostRanks - 1);
  return steps_.get()[rank];
}

void FaultPlan::ask(int rank, int64_t step) {
  std::atomic_ref(of(rank)).store(step);
}

bool FaultPlan::is_asked(int rank) const {
  return std::atomic_ref(of(rank)).load() != 0;
}

bool FaultPlan::take(int rank) {
  int64_t step = step_;
  return std::atomic_ref(of(rank)).compare_exchange_strong(step, 0);
}

}  // namespace athanor::chaos
