// What the program needs of a CUDA device, as a table of plain functions (CudaCalls). The table is the boundary to the
// plug-in that is linked with CUDA's libraries (device/ -> athanor_cuda.so). The plug-in is loaded only if a device is
// asked for, so the program also runs where there is none. tests/cuda/emulated implements the same table on a CPU.
//
//   const CudaCalls& cuda = *athanor_cuda_calls();
//   if (const char* error = cuda.allocate(device, size_bytes, &data)) ...
//
// All pointers are device addresses unless a comment says otherwise. Contracts, formulas and shapes are those of
// kernels/x.h; the callers (kernels/cuda/x.cpp) have checked them. Work is submitted to a stream and done in its order.
// A call returns null for success, or an error text that is valid until the thread's next call.
// Thread rule: one thread at a time per stream; calls without a stream from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "athanor/tensor/dtype.h"

namespace athanor::kernels {

struct CudaDevice {
  char name[128];
  int major, minor;                // compute capability
  int driver_version;              // 13000 means 13.0
  int multiprocessors, clock_mhz;  // the clock is 0 where the driver does not say
  uint64_t memory_bytes, free_bytes;
};

// What a kernel found wrong with its data, in cases in which the CPU's driver throws. It lies in host memory that the
// device writes. Only the first fault is recorded. The host reads it after it has waited for the stream.
struct CudaFault {
  enum Code : int32_t { none, target, id, token, place };
  int32_t code;
  int32_t value;    // the value that is out of range
  int64_t at, end;  // its index; the end of the legal range
};

// c [m,n] = a . b in one of the three forms of kernels/gemm.h.
struct CudaProduct {
  enum Form : int32_t { nt, nn, tn } form;
  int64_t m, n, k;
  Dtype in, out;
  bool add;                     // add to c instead of overwriting it
  int64_t a_row, b_row, c_row;  // elements from a row of the matrix to its next
  const void *a, *b, *bias;     // bias [n] of the type `in`, or null
  const void* residual;  // of c's shape and type, added before c is rounded; null: none. Not with `add`
  void* c;
  void* workspace;
  uint64_t workspace_bytes;
};

// AttentionPart with all sizes filled in.
struct CudaAttention {
  int64_t batch, heads, kv_heads, head_dim;
  int64_t all_queries, first_query, queries, all_keys, first_key, keys;
  bool causal;
  float scale;
  const int32_t* first_keys;  // [batch, all_queries] or null
};

// The vendor's fused attention, a candidate above CudaKernelCalls::attention_*. `delta` [B,H,T] f32 and `workspace` (a
// multiple of 16 bytes, of the size that plan() told) are scratch.
struct CudaFusedAttention;

struct CudaCalls {
  static constexpr int kVersion = 3;
  static constexpr int kOldest = 80;  // the lowest compute capability that is supported, times 10
  int version;
  const char* name;  // "cuda", "emulated"
  struct Stream;
  struct Event;

  // Devices and memory.
  const char* (*count_devices)(int* count);
  const char* (*describe)(int device, CudaDevice* description);
  const char* (*allocate)(int device, uint64_t size_bytes, void** data);  // *data null: the device is full
  const char* (*release)(void* data);
  const char* (*allocate_pinned)(uint64_t size_bytes, void** host);
  const char* (*release_pinned)(void* host);
  bool (*is_of_device)(const void* data);  // memory of any device, not of the host

  // Streams. `fault` is pinned host memory, or null.
  const char* (*open_stream)(int device, CudaFault* fault, Stream** stream);
  void (*close_stream)(Stream* stream);
  const char* (*wait)(Stream* stream);
  const char* (*copy)(Stream*, void* to, const void* from,
                      uint64_t size_bytes);  // any two of device and pinned host
  const char* (*clear)(Stream*, void* to, uint64_t size_bytes);
  const char* (*make_event)(Stream*, Event** event);  // of the stream's device
  void (*forget_event)(Event* event);
  const char* (*record)(Stream*, Event* event);
  const char* (*wait_for)(Stream*, Event* event);  // the stream waits for the event
  const char* (*wait_event)(Event* event);         // the host waits for the event
  const char* (*has_come)(Event* event, bool* come);
  const char* (*product)(Stream*, const CudaProduct& product);
  const struct CudaKernelCalls* kernels;
  const CudaFusedAttention* fused_attention;  // null: there is none
};

struct CudaFusedAttention {
  using Stream = CudaCalls::Stream*;
  // *can: whether it takes this problem. Making the plan takes some 0.1 s, once for each shape.
  const char* (*plan)(Stream, Dtype type, const CudaAttention& problem, bool backward, bool* can,
                      uint64_t* workspace_bytes);
  const char* (*forward)(Stream, Dtype type, void* o, float* lse, const void* q, const void* k, const void* v,
                         const CudaAttention& problem, void* workspace);
  const char* (*backward)(Stream, Dtype type, void* dq, void* dk, void* dv, const void* d_o, const void* o,
                          const float* lse, float* delta, const void* q, const void* k, const void* v,
                          const CudaAttention& problem, void* workspace);
};

// The plug-in's one symbol.
extern "C" __attribute__((visibility("default"))) const CudaCalls* athanor_cuda_calls();

}  // namespace athanor::kernels
