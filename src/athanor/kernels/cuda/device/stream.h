// A stream of the plug-in, and launching a kernel on it.
#pragma once

#include <cuda_runtime.h>

#include "athanor/kernels/cuda/calls.h"

namespace athanor::kernels {

struct CudaCalls::Stream {
  int device;
  cudaStream_t stream;
  CudaFault* fault;            // as the device addresses it, or null
  struct ProductPlans* plans;  // of cuBLASLt, cached by shape (device/product.cpp)
  struct AttentionPlans*
      attention;  // of cuDNN, likewise (device/fused_attention.cpp); null: there is no cuDNN
};

namespace cuda {

// The error text of a CUDA call, or null.
inline const char* error_text(cudaError_t error) {
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

inline CudaFault* fault_of(CudaCalls::Stream* stream) {
  return stream->fault;
}

#ifdef __CUDACC__
// `shared_bytes`: dynamic shared memory, beside what the kernel declares. With 0 blocks nothing is launched.
template <typename... Parameters, typename... Arguments>
const char* launch_shared(CudaCalls::Stream* stream, void (*kernel)(Parameters...), int64_t blocks,
                          int threads, uint64_t shared_bytes, const Arguments&... arguments) {
  constexpr uint64_t kAlwaysGranted = 48 << 10;
  if (blocks == 0) return nullptr;
  if (blocks > INT32_MAX) return "more than 2^31 blocks in one launch";
  if (const char* error = error_text(cudaSetDevice(stream->device))) return error;
  if (shared_bytes > kAlwaysGranted)
    if (const char* error = error_text(cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes))))
      return error;
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), shared_bytes, stream->stream>>>(
      static_cast<Parameters>(arguments)...);
  return error_text(cudaGetLastError());
}
template <typename... Parameters, typename... Arguments>
const char* launch(CudaCalls::Stream* stream, void (*kernel)(Parameters...), int64_t blocks, int threads,
                   const Arguments&... arguments) {
  return launch_shared(stream, kernel, blocks, threads, 0, arguments...);
}

template <typename T>
__device__ T* shared_memory() {
  extern __shared__ double2 dynamic_shared_memory[];
  return reinterpret_cast<T*>(dynamic_shared_memory);
}
#endif

}  // namespace cuda
}  // namespace athanor::kernels
