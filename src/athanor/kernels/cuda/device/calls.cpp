// The plug-in's table, by CUDA's runtime.
#include <algorithm>
#include <cstring>

#include "athanor/kernels/cuda/device/kernel_table.h"
#ifdef ATHANOR_CUDNN
#include "athanor/kernels/cuda/device/fused_attention.h"
#endif
#include "athanor/kernels/cuda/device/product.h"
#include "athanor/kernels/cuda/device/stream.h"

namespace athanor::kernels {

struct CudaCalls::Event {
  cudaEvent_t event;
};

namespace cuda {
namespace {

using Error = const char*;
using Stream = CudaCalls::Stream;
using Event = CudaCalls::Event;

Error count_devices(int* count) {
  return error_text(cudaGetDeviceCount(count));
}

Error describe(int device, CudaDevice* description) {
  cudaDeviceProp properties{};
  size_t free_bytes = 0, all_bytes = 0;
  int driver = 0, clock_khz = 0;
  cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error == cudaSuccess) error = cudaSetDevice(device);
  if (error == cudaSuccess) error = cudaMemGetInfo(&free_bytes, &all_bytes);
  if (error == cudaSuccess) error = cudaDriverGetVersion(&driver);
  if (error != cudaSuccess) return error_text(error);
  // The clock is for show: a driver that does not tell it is no reason to fail.
  if (cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, device) != cudaSuccess) cudaGetLastError();
  *description = {};
  std::memcpy(description->name, properties.name,
              std::min(std::strlen(properties.name), sizeof description->name - 1));
  description->major = properties.major;
  description->minor = properties.minor;
  description->driver_version = driver;
  description->multiprocessors = properties.multiProcessorCount;
  description->clock_mhz = clock_khz / 1000;
  description->memory_bytes = all_bytes;
  description->free_bytes = free_bytes;
  return nullptr;
}

Error allocate(int device, uint64_t size_bytes, void** data) {
  *data = nullptr;
  cudaError_t error = cudaSetDevice(device);
  if (error == cudaSuccess) error = cudaMalloc(data, size_bytes);
  if (error != cudaErrorMemoryAllocation) return error_text(error);
  cudaGetLastError();  // so that it is not found by the next launch
  return nullptr;
}
Error release(void* data) {
  return error_text(cudaFree(data));
}
Error allocate_pinned(uint64_t size_bytes, void** host) {
  return error_text(cudaHostAlloc(host, size_bytes, cudaHostAllocPortable | cudaHostAllocMapped));
}
Error release_pinned(void* host) {
  return error_text(cudaFreeHost(host));
}

bool is_of_device(const void* data) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, data) == cudaSuccess)
    return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  cudaGetLastError();  // so that it is not found by the next launch
  return false;
}

void close_stream(Stream* stream) {
  if (stream->plans != nullptr) close_plans(stream->plans);
#ifdef ATHANOR_CUDNN
  if (stream->attention != nullptr) close_attention_plans(stream->attention);
#endif
  if (stream->stream != nullptr) cudaStreamDestroy(stream->stream);
  delete stream;
}

Error open_stream(int device, CudaFault* fault, Stream** opened) {
  auto* stream = new Stream{device, nullptr, nullptr, nullptr, nullptr};
  cudaError_t error = cudaSetDevice(device);
  if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&stream->stream, cudaStreamNonBlocking);
  if (error == cudaSuccess && fault != nullptr) {
    void* of_device = nullptr;
    error = cudaHostGetDevicePointer(&of_device, fault, 0);
    stream->fault = static_cast<CudaFault*>(of_device);
  }
  const char* text = error_text(error);
  if (text == nullptr) text = open_plans(&stream->plans);
#ifdef ATHANOR_CUDNN
  if (text == nullptr) stream->attention = open_attention_plans();
#endif
  if (text == nullptr)
    *opened = stream;
  else
    close_stream(stream);
  return text;
}

Error wait(Stream* stream) {
  return error_text(cudaStreamSynchronize(stream->stream));
}
Error copy(Stream* stream, void* to, const void* from, uint64_t size_bytes) {
  return error_text(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, stream->stream));
}
Error clear(Stream* stream, void* to, uint64_t size_bytes) {
  return error_text(cudaMemsetAsync(to, 0, size_bytes, stream->stream));
}

Error make_event(Stream* stream, Event** event) {
  *event = new Event{};
  if (const Error error = error_text(cudaSetDevice(stream->device))) return error;
  return error_text(cudaEventCreateWithFlags(&(*event)->event, cudaEventDisableTiming));
}
void forget_event(Event* event) {
  cudaEventDestroy(event->event);
  delete event;
}
Error record(Stream* stream, Event* event) {
  return error_text(cudaEventRecord(event->event, stream->stream));
}
Error wait_for(Stream* stream, Event* event) {
  return error_text(cudaStreamWaitEvent(stream->stream, event->event, 0));
}
Error wait_event(Event* event) {
  return error_text(cudaEventSynchronize(event->event));
}
Error has_come(Event* event, bool* come) {
  const cudaError_t error = cudaEventQuery(event->event);
  *come = error == cudaSuccess;
  return error == cudaErrorNotReady ? nullptr : error_text(error);
}

#ifdef ATHANOR_CUDNN
constexpr CudaFusedAttention kFusedAttention{fused_attention_plan, fused_attention_forward,
                                             fused_attention_backward};
constexpr const CudaFusedAttention* kAttention = &kFusedAttention;
#else
constexpr const CudaFusedAttention* kAttention = nullptr;
#endif

constexpr CudaCalls kCalls{.version = CudaCalls::kVersion,
                           .name = "cuda",
                           .count_devices = count_devices,
                           .describe = describe,
                           .allocate = allocate,
                           .release = release,
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
                           .kernels = &kernel_calls,
                           .fused_attention = kAttention};

}  // namespace
}  // namespace cuda

extern "C" const CudaCalls* athanor_cuda_calls() {
  return &cuda::kCalls;
}

}  // namespace athanor::kernels
