// Memory that only a device can address: allocation for arenas, and the copies of tensor.h. A queue of such a device
// has one (Queue::device_memory); the device's backend implements it (kernels/cuda/queue.h).
//
// All operations are in the order of the queue. A copy sees what kernels submitted before it wrote. Memory that is
// freed on the host may be allocated again at once, because its next user is submitted later. Thread rule: as Queue,
// one thread at a time; allocate() and release() from any thread.
#pragma once

#include <memory>
#include <optional>

#include "athanor/tensor/copy_lane.h"
#include "athanor/tensor/slab.h"

namespace athanor::tensor {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::optional<Slab> allocate(
      uint64_t size_bytes) = 0;                // not cleared; nullopt if the device is full
  virtual void release(const Slab& slab) = 0;  // waits for all submitted work
  virtual uint64_t free_bytes() = 0;           // what allocate() may still take

  virtual void copy_in(void* to, const void* from_host,
                       uint64_t size_bytes) = 0;  // from_host may be reused as soon as it returns
  virtual void copy_out(void* to_host, const void* from, uint64_t size_bytes) = 0;  // blocks until done
  virtual void copy(void* to, const void* from, uint64_t size_bytes) = 0;
  virtual void clear(void* to, uint64_t size_bytes) = 0;
  virtual std::unique_ptr<CopyLane> open_copy_lane() = 0;  // the queue outlives it
};

}  // namespace athanor::tensor
