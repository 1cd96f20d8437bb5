#include "athanor/chaos/fault_plan.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/control/descriptor.h"

namespace athanor::chaos {
namespace {

constexpr size_t kBytes = FaultPlan::kMostRanks * 5 * sizeof(int64_t);
constexpr std::string_view kEndsStep = "losses", kGradients = "gradients";

bool is_message(const Call& call) {
  return call.collective == Collective::send || call.collective == Collective::recv ||
         call.collective == Collective::share;
}

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
  static_assert(sizeof(Entry) * kMostRanks == kBytes);
  entries_ =
      std::shared_ptr<Entry>(static_cast<Entry*>(memory), [](Entry* mapped) { munmap(mapped, kBytes); });
}

FaultPlan::Entry& FaultPlan::of(int rank) const {
  check(rank >= 0 && static_cast<size_t>(rank) < kMostRanks, "fault plan: got rank {}, expected 0 to {}",
        rank, kMostRanks - 1);
  return entries_.get()[rank];
}

// `step` is written last: it says that there is something.
void FaultPlan::ask(int rank, const PlannedFault& fault) {
  Entry& entry = of(rank);
  entry.act = static_cast<int64_t>(fault.act);
  entry.where = fault.where;
  entry.amount = fault.amount;
  std::atomic_ref(entry.step).store(fault.step);
}

bool FaultPlan::is_asked(int rank) const {
  return std::atomic_ref(of(rank).step).load() != 0;
}

int64_t FaultPlan::taken_ns(int rank) const {
  return std::atomic_ref(of(rank).taken_ns).load();
}

bool FaultPlan::is_due(const PlannedFault& fault, const Call& call, int64_t number) const {
  if (fault.step != PlannedFault::kSoon && step_ < fault.step) return false;
  if (fault.act == PlannedFault::Act::nan_gradient) return call.name.starts_with(kGradients);
  if (fault.act == PlannedFault::Act::flip_gradient)
    return call.name.starts_with(kGradients) &&
           (call.collective == Collective::all_reduce || call.collective == Collective::all_reduce_tree);
  return number >= static_cast<int64_t>(fault.where * static_cast<double>(calls_before_.load()));
}

std::optional<PlannedFault> FaultPlan::next_call(int rank, const Call& call) {
  if (is_message(call)) return std::nullopt;
  if (call.name == kEndsStep) {
    calls_before_ = calls_.exchange(0);
    ++step_;
  }
  const int64_t number = calls_++;
  Entry& entry = of(rank);
  int64_t step = std::atomic_ref(entry.step).load();
  if (step == 0) return std::nullopt;
  const PlannedFault fault{.act = static_cast<PlannedFault::Act>(entry.act),
                           .step = step,
                           .where = entry.where,
                           .amount = entry.amount};
  if (!is_due(fault, call, number)) return std::nullopt;
  std::atomic_ref(entry.taken_ns).store(now_ns());
  if (!std::atomic_ref(entry.step).compare_exchange_strong(step, 0)) return std::nullopt;
  return fault;
}

}  // namespace athanor::chaos
