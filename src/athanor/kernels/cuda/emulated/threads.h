// CUDA's words on a CPU, so that the kernels of device/ run where there is no GPU: for tests of what they compute and
// of how the program drives a device; their speed is no one's.
//
// The threads of a block are fibers of one thread of the CPU: each runs until it comes to __syncthreads() or to its
// end; when all have come there, all go on. A barrier that only some of a block's threads come to is an error (on a
// device it is undefined). Blocks run one after the other. Work is kept in its stream until somebody waits for it, as
// a device may well do: who reads a result or reuses a buffer too early is found out.
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

namespace athanor::emulated {

struct Index {
  unsigned x = 0;
};

// The stacks of a block's threads lie side by side, aligned to the size of all: the address of a thread's stack tells
// which thread it is and where to find the rest, without a thread-local variable (a call, in a module loaded late).
constexpr size_t kStackBytes = 64 << 10;
constexpr unsigned kMostThreads = 256;
constexpr size_t kAllStacks = kMostThreads * kStackBytes;
struct Block {  // where the first stack can grow to
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
std::byte* shared_memory();  // of the running block
// Adds a kernel of so many blocks to the stream.
const char* submit_kernel(CudaCalls::Stream* stream, int64_t blocks, int threads, uint64_t shared_bytes,
                          std::function<void()> body);
// Adds anything else.
void submit(CudaCalls::Stream* stream, std::function<void()> work);

}  // namespace athanor::emulated

#define threadIdx ::athanor::emulated::thread_here()
#define blockIdx ::athanor::emulated::block_here().index
#define blockDim ::athanor::emulated::block_here().size
#define __syncthreads ::athanor::emulated::synchronize_block
// NOLINTEND(bugprone-reserved-identifier)

namespace athanor::cuda {

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

}  // namespace athanor::cuda
