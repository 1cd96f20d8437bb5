#include "athanor/comm/nccl/nccl_link.h"

#include <sched.h>

#include <chrono>
#include <thread>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"

namespace athanor::comm::nccl {

namespace {

constexpr int64_t kYieldNs = 200'000;  // a wait yields for so long, then sleeps between polls
constexpr int64_t kLookNs = 5'000'000;

void check_nccl(const char* what, const char* error) {
  if (error != nullptr) throw NcclError(fmt::format("nccl: {}: {}", what, error));
}

}  // namespace

CudaEvent::CudaEvent(CudaQueue& queue) : calls_(queue.calls()) {
  check_nccl("an event", calls_.make_event(queue.stream(), &event_));
  check_nccl("an event", calls_.record(queue.stream(), event_));
}

CudaEvent::~CudaEvent() {
  calls_.forget_event(event_);
}

NcclLink::NcclLink(const NcclDevice& device, int rank, int size)
    : device_(device), calls_(device.queue.calls()), rank_(rank), size_(size) {
  check_nccl("a stream", calls_.open_stream(device_.queue.device_index(), nullptr, &stream_));
  check_nccl("an event", calls_.make_event(stream_, &finished_));
}

NcclLink::~NcclLink() {
  if (communicator_ != nullptr) device_.nccl.close(communicator_);
  calls_.forget_event(finished_);
  calls_.close_stream(stream_);
}

NcclLink::Id NcclLink::make_id(const NcclCalls& nccl) {
  Id id{};
  check_nccl("an id", nccl.make_id(id.data()));
  return id;
}

void NcclLink::open(const Id& id, const Look& look) {
  check_nccl("a communicator",
             device_.nccl.open(device_.queue.device_index(), id.data(), rank_, size_, &communicator_));
  settle("a communicator", look);
}

void NcclLink::abort() {
  if (communicator_ != nullptr) device_.nccl.abort(communicator_);
  communicator_ = nullptr;
}

void NcclLink::wait_for(const CudaEvent& event) {
  check_nccl("an event", calls_.wait_for(stream_, event.get()));
}

void NcclLink::copy(void* to, const void* from, size_t size_bytes) {
  check_nccl("a copy", calls_.copy(stream_, to, from, size_bytes));
}

void NcclLink::transfer(const std::vector<NcclMessage>& messages, const Look& look) {
  if (messages.empty()) return;
  check_nccl("a transfer", device_.nccl.transfer(communicator_, stream_, messages.data(), messages.size()));
  settle("a transfer", look);
}

void NcclLink::settle(const char* what, const Look& look) {
  wait(look, [&] {
    bool ready = false;
    check_nccl(what, device_.nccl.is_ready(communicator_, &ready));
    return ready;
  });
}

void NcclLink::mark() {
  check_nccl("an event", calls_.record(stream_, finished_));
}

void NcclLink::let_wait(Queue& queue) const {
  check_nccl("an event", calls_.wait_for(cuda(queue).stream(), finished_));
}

void NcclLink::finish(const Look& look) {
  wait(look, [&] {
    bool come = false, ready = true;
    check_nccl("the device", calls_.has_come(finished_, &come));
    if (!come && is_open()) check_nccl("a transfer", device_.nccl.is_ready(communicator_, &ready));
    return come;
  });
}

void NcclLink::wait(const Look& look, const std::function<bool()>& done) {
  const int64_t start = now_ns();
  int64_t looked = start;
  while (!done()) {
    const int64_t now = now_ns();
    if (now - looked >= kLookNs) {
      look();
      looked = now;
    }
    if (now - start < kYieldNs)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(now - start > 100 * kYieldNs ? 200 : 20));
  }
}

}  // namespace athanor::comm::nccl
