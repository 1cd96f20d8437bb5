// What the program needs of NCCL, as a table of plain functions (NcclCalls). The table is the boundary to the module
// that is linked with NCCL (device/nccl.cpp -> athanor_nccl.so). The module is loaded if ranks on several devices
// communicate (comm/nccl/nccl.h). tests/cuda/emulated implements the same table between the threads of one process.
//
// A communicator only moves bytes between the devices of its ranks, in the order of a stream; the program computes
// sums. A call returns null, or an error text that is valid until the thread's next call. No call but close() waits for
// another rank. Thread rule: one thread at a time per communicator, but abort() from any; calls without one from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "athanor/kernels/cuda/calls.h"

namespace athanor::kernels {

// One point-to-point message of a transfer, in device memory.
struct NcclMessage {
  bool is_send;
  int peer;
  void* data;  // read by a send, written by a receive
  uint64_t size_bytes;
};

struct NcclCalls {
  static constexpr int kVersion = 1;
  static constexpr size_t kIdBytes = 128;
  int version;
  int library_version;  // 22809 means 2.28.9
  struct Communicator;

  const char* (*make_id)(std::byte* id);  // [kIdBytes], the same on all ranks of a communicator
  const char* (*open)(int device, const std::byte* id, int rank, int size, Communicator** communicator);
  // Whether the last open() or transfer() has been submitted; its error, if any. Callers poll it after these two.
  const char* (*is_ready)(Communicator*, bool* ready);
  // Starts all messages as one NCCL group: no message waits for another one of the call. Sends and receives of a pair
  // of ranks match in their order.
  const char* (*transfer)(Communicator*, CudaCalls::Stream*, const NcclMessage* messages, size_t count);
  void (*close)(Communicator*);  // waits for its work
  void (*abort)(Communicator*);  // ends its work; data in flight is lost. The last call on a communicator
};

// The module's one symbol.
extern "C" __attribute__((visibility("default"))) const NcclCalls* athanor_nccl_calls();

}  // namespace athanor::kernels
