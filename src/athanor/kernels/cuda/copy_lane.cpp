#include "athanor/kernels/cuda/copy_lane.h"

#include <cstring>

namespace athanor::kernels {
namespace {

void check_call(const char* what, const char* error) {
  check(error == nullptr, "cuda: {}: {}", what, error == nullptr ? "" : error);
}

}  // namespace

CudaCopyLane::CudaCopyLane(CudaQueue& queue) : queue_(queue), calls_(queue.calls()) {
  check_call("a stream of copies", calls_.open_stream(queue.device_index(), nullptr, &stream_));
  check_call("an event", calls_.make_event(queue.stream(), &computed_));
  for (CudaCalls::Event*& event : copied_) check_call("an event", calls_.make_event(stream_, &event));
}

// Waits through the queue: the queue waits for the copies, and the host waits for the queue.
CudaCopyLane::~CudaCopyLane() {
  await_all();
  calls_.wait(queue_.stream());
  calls_.forget_event(computed_);
  for (CudaCalls::Event* event : copied_) calls_.forget_event(event);
  calls_.close_stream(stream_);
}

std::shared_ptr<std::byte> CudaCopyLane::allocate_pinned(uint64_t size_bytes) {
  void* data = nullptr;
  if (const char* error = calls_.allocate_pinned(size_bytes, &data))
    fail("cuda: {} bytes of pinned memory of the host: {}", size_bytes, error);
  std::memset(data, 0, size_bytes);
  return {static_cast<std::byte*>(data), [release = calls_.release_pinned](std::byte* p) { release(p); }};
}

uint64_t CudaCopyLane::start(void* to, const void* from, uint64_t size_bytes) {
  check_call("an event", calls_.record(queue_.stream(), computed_));
  check_call("an event", calls_.wait_for(stream_, computed_));
  check_call("a copy beside the queue", calls_.copy(stream_, to, from, size_bytes));
  ++started_;
  check_call("an event", calls_.record(stream_, event_of(started_)));
  return started_;
}

void CudaCopyLane::await(uint64_t copy) {
  if (copy > 0) check_call("an event", calls_.wait_for(queue_.stream(), event_of(copy)));
}

void CudaCopyLane::await_all() noexcept {
  if (started_ > 0) calls_.wait_for(queue_.stream(), event_of(started_));
}

}  // namespace athanor::kernels
