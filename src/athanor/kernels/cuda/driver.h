// What the drivers of the CUDA kernels share (kernels/cuda/x.cpp, one per operation).
//
// A driver first calls the CPU driver of the same name, which on a CUDA queue checks the contract, meters the call and
// runs nothing. Then it submits the device's kernel:
//
//   cpu_gelu.forward(queue, y, x, form);
//   CudaQueue& device = cuda(queue);
//   device.submitted("gelu.forward", x, kernels_of(device).gelu_forward(device.stream(), x.dtype(), y.raw(), ...));
//
// The CPU driver has freed its workspace by then, so a call needs no more workspace than the larger of the two.
#pragma once

#include <cstddef>
#include <cstdint>

#include "athanor/kernels/cpu/cpu.h"
#include "athanor/kernels/cuda/queue.h"

namespace athanor::kernels {

inline const CudaKernelCalls& kernels_of(const CudaQueue& queue) {
  return *queue.calls().kernels;
}
// Workspace for a library: the vendor's ask for addresses at multiples of 256 bytes, an arena's are multiples of 64.
class LibraryWorkspace {
 public:
  LibraryWorkspace(Arena& arena, uint64_t size_bytes) {
    constexpr uint64_t kAlignment = 256;
    if (size_bytes == 0) return;
    memory_ = empty(arena, {static_cast<int64_t>(size_bytes + kAlignment)}, Dtype::u8, Category::workspace);
    const auto address = reinterpret_cast<uintptr_t>(memory_.raw());
    data_ = static_cast<std::byte*>(memory_.raw()) + (kAlignment - address % kAlignment) % kAlignment;
  }
  void* data() const { return data_; }

 private:
  Tensor memory_;
  std::byte* data_ = nullptr;
};

inline const void* raw_or_null(const Tensor* x) {
  return x == nullptr ? nullptr : x->raw();
}
inline void* raw_or_null(Tensor* x) {
  return x == nullptr ? nullptr : x->raw();
}

}  // namespace athanor::kernels
