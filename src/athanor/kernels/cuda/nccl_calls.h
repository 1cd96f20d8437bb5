// What the program needs of NCCL, as a table of plain functions: the boundary between it and the module that is linked
// with NCCL (device/nccl.cpp -> athanor_nccl.so). It is loaded where ranks on several devices talk to each other
// (comm/nccl.h); kernels/cuda/emulated implements the same table between the threads of one process.
//
// A communicator moves bytes between the devices of its ranks, in the order of a stream; sums are the program's own.
// Calls return a text that lives until the thread's next call, or null. None of them waits for another rank but close().
// Thread rule: one thread at a time per communicator, but for abort(); the rest from any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "athanor/kernels/cuda/calls.h"

namespace athanor {

// One message of a transfer: to or from a peer, in memory of the device.
struct NcclMessage {
  bool is_send;
  int peer;
  void* data;  // that is sent is only read
  uint64_t size_bytes;
};

struct NcclCalls {
  static constexpr int kVersion = 1;
  static constexpr size_t kIdBytes = 128;
  int version;
  int library_version;  // 22809: 2.28.9
  struct Communicator;

  const char* (*make_id)(std::byte* id);  // [kIdBytes], the same on all ranks of a communicator
  const char* (*open)(int device, const std::byte* id, int rank, int size, Communicator** communicator);
  // Whether what was called is under way; what has gone wrong since. Asked until then after open() and transfer().
  const char* (*is_ready)(Communicator*, bool* ready);
  // All messages at once: they wait for no other of them. Messages of a pair meet in their order.
  const char* (*transfer)(Communicator*, CudaCalls::Stream*, const NcclMessage* messages, size_t count);
  void (*close)(Communicator*);  // when its work is done
  void (*abort)(Communicator*);  // ends its work, whatever becomes of the data; nothing is called after it
};

// The module's one symbol.
extern "C" __attribute__((visibility("default"))) const NcclCalls* athanor_nccl_calls();

}  // namespace athanor
