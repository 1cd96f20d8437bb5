// The emulated device's table: one device, as many streams as are opened.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "athanor/kernels/cuda/device/kernel_table.h"
#include "cuda/emulated/memory.h"
#include "cuda/emulated/product.h"
#include "cuda/emulated/side_streams.h"
#include "cuda/emulated/stream.h"
#include "cuda/emulated/threads.h"

namespace athanor::kernels {

CudaFault* cuda::fault_of(CudaCalls::Stream* stream) {
  return stream->fault;
}

namespace emulated {

void submit(CudaCalls::Stream* stream, std::function<void()> work) {
  stream->submit([work = std::move(work)] {
    work();
    return true;
  });
}

namespace {

using Error = const char*;
using Stream = CudaCalls::Stream;
using Event = CudaCalls::Event;

Error count_devices(int* count) {
  *count = 1;
  return nullptr;
}

Error describe(int device, CudaDevice* description) {
  if (device != 0) return "there is one emulated device";
  *description = {.name = "emulated on the CPU",
                  .major = 8,
                  .minor = 0,
                  .driver_version = 0,
                  .multiprocessors = 1,
                  .clock_mhz = 0,
                  .memory_bytes = kDeviceBytes,
                  .free_bytes = free_bytes()};
  return nullptr;
}

Error allocate_device(int, uint64_t size_bytes, void** data) {
  *data = allocate(size_bytes);
  return nullptr;
}
Error release_device(void* data) {
  release(data);
  return nullptr;
}
Error allocate_pinned(uint64_t size_bytes, void** host) {
  *host = std::malloc(size_bytes);
  if (*host == nullptr) return "no memory";
  std::memset(*host, 0xa5, size_bytes);  // a driver promises nothing
  return nullptr;
}
Error release_pinned(void* host) {
  std::free(host);
  return nullptr;
}

std::atomic<bool> side_streams_at_once = false;

// A queue's own has somewhere to note faults.
Error open_stream(int, CudaFault* fault, Stream** stream) {
  const auto opened = std::make_shared<Stream>();
  opened->self = opened;
  *stream = opened.get();
  (*stream)->fault = fault;
  (*stream)->at_once = fault == nullptr && side_streams_at_once;
  return nullptr;
}
Error wait(Stream* stream) {
  stream->run_until(stream->submitted);
  return nullptr;
}
void close_stream(Stream* stream) {
  wait(stream);
  const auto last = std::exchange(stream->self, nullptr);  // other streams may still wait for its events
}

Error copy(Stream* stream, void* to, const void* from, uint64_t size_bytes) {
  submit(stream, [=] {
    const DeviceAccess access;
    std::memcpy(to, from, size_bytes);
  });
  return nullptr;
}
Error clear(Stream* stream, void* to, uint64_t size_bytes) {
  submit(stream, [=] {
    const DeviceAccess access;
    std::memset(to, 0, size_bytes);
  });
  return nullptr;
}

Error make_event(Stream*, Event** event) {
  *event = new Event;
  return nullptr;
}
void forget_event(Event* event) {
  delete event;
}
Error record(Stream* stream, Event* event) {
  const std::lock_guard lock(stream->mutex);
  *event = {stream->self, stream->submitted};
  return nullptr;
}
Error wait_event(Event* event) {
  if (event->stream != nullptr) event->stream->run_until(event->end);
  return nullptr;
}
Error wait_for(Stream* stream, Event* event) {
  stream->submit([recorded = *event]() mutable { return recorded.try_to_come(); });
  return nullptr;
}
Error has_come(Event* event, bool* come) {
  *come = event->try_to_come();
  return nullptr;
}

constexpr CudaCalls kCalls{.version = CudaCalls::kVersion,
                           .name = "emulated",
                           .count_devices = count_devices,
                           .describe = describe,
                           .allocate = allocate_device,
                           .release = release_device,
                           .allocate_pinned = allocate_pinned,
                           .release_pinned = release_pinned,
                           .is_of_device = is_of_device,
                           .open_stream = open_stream,
                           .close_stream = close_stream,
                           .wait = wait,
                           .copy = copy,
                           .clear = clear,
                           .make_event = make_event,
                           .forget_event = forget_event,
                           .record = record,
                           .wait_for = wait_for,
                           .wait_event = wait_event,
                           .has_come = has_come,
                           .product = product,
                           .kernels = &cuda::kernel_calls,
                           .fused_attention = nullptr};

}  // namespace
}  // namespace emulated

extern "C" const CudaCalls* athanor_cuda_calls() {
  return &emulated::kCalls;
}

}  // namespace athanor::kernels

extern "C" void athanor_emulated_side_streams(bool at_once) {
  athanor::kernels::emulated::side_streams_at_once = at_once;
}
