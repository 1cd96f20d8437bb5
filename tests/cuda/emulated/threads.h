// CUDA's keywords on a CPU, so that the kernels of kernels/cuda/device run without a GPU. For tests of what the kernels
// compute and of how the program drives a device; speed does not matter.
//
// The threads of a block are fibers of one CPU thread. Each runs until __syncthreads() or its end; when all threads of
// the block have arrived, all go on. A barrier that only some threads of a block reach is an error (on a device it is
// undefined). Blocks run one after the other. Work stays in its stream until somebody waits for it, as on a device:
// code that reads a result or reuses a buffer too early fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "athanor/kernels/cuda/calls.h"

// These are keywords of CUDA.
// NOLINTBEGIN(bugprone-reserved-identifier)
#define __global__
#define __device__
#define __host__
#define __shared__ static thread_local

namespace athanor::kernels::emulated {

struct Index {
  unsigned x = 0;
};

// The stacks of a block's threads lie side by side, aligned to their total size. So the address of a stack tells which
// thread runs and where its Block is, without a thread-local variable (a function call in a module that is loaded
// late).
constexpr size_t kStackBytes = 64 << 10;
constexpr unsigned kMostThreads = 256;
constexpr size_t kAllStacks = kMostThreads * kStackBytes;
struct Block {  // lies at the low end of the first stack
  Index index{}, size{};
  void* fibers = nullptr;
};
inline uintptr_t stack_here() {
  uintptr_t stack;
  asm("movq %%rsp, %0" : "=r"(stack));
  return stack;
}
inline const Block& block_here() {
  return *reinterpret_cast<const Block*>(stack_here() & ~(kAllStacks - 1));
}
inline Index thread_here() {
  return {static_cast<unsigned>(stack_here() / kStackBytes % kMostThreads)};
}

void synchronize_block();
// What another thread of the warp gives. All threads of the block must come: more than a device asks for.
template <typename Number>
Number shuffle_xor(Number value, unsigned distance);
std::byte* shared_memory();  // of the running block
// Adds a kernel to the stream.
const char* submit_kernel(CudaCalls::Stream* stream, int64_t blocks, int threads, uint64_t shared_bytes,
                          std::function<void()> body);
// Adds other work to the stream.
void submit(CudaCalls::Stream* stream, std::function<void()> work);

inline double* exchanged() {
  static thread_local double values[kMostThreads];
  return values;
}
template <typename Number>
Number shuffle_xor(Number value, unsigned distance) {
  static_assert(sizeof(Number) <= sizeof(double));
  const unsigned here = thread_here().x, other = here ^ distance;
  *reinterpret_cast<Number*>(exchanged() + here) = value;
  synchronize_block();
  if (other < block_here().size.x) value = *reinterpret_cast<const Number*>(exchanged() + other);
  synchronize_block();
  return value;
}

}  // namespace athanor::kernels::emulated

#define threadIdx ::athanor::kernels::emulated::thread_here()
#define blockIdx ::athanor::kernels::emulated::block_here().index
#define blockDim ::athanor::kernels::emulated::block_here().size
#define __syncthreads ::athanor::kernels::emulated::synchronize_block
#define __shfl_xor_sync(lanes, value, distance) \
  ::athanor::kernels::emulated::shuffle_xor(value, static_cast<unsigned>(distance))
// NOLINTEND(bugprone-reserved-identifier)

namespace athanor::kernels::cuda {

CudaFault* fault_of(CudaCalls::Stream* stream);

template <typename... Parameters, typename... Arguments>
const char* launch_shared(CudaCalls::Stream* stream, void (*kernel)(Parameters...), int64_t blocks,
                          int threads, uint64_t shared_bytes, const Arguments&... arguments) {
  return emulated::submit_kernel(stream, blocks, threads, shared_bytes,
                                 [=] { kernel(static_cast<Parameters>(arguments)...); });
}
template <typename... Parameters, typename... Arguments>
const char* launch(CudaCalls::Stream* stream, void (*kernel)(Parameters...), int64_t blocks, int threads,
                   const Arguments&... arguments) {
  return launch_shared(stream, kernel, blocks, threads, 0, arguments...);
}

template <typename T>
T* shared_memory() {
  return reinterpret_cast<T*>(emulated::shared_memory());
}

}  // namespace athanor::kernels::cuda
