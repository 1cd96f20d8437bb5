// Memory that only a device can address, as an arena and the copies of tensor.h see it. A queue of such a device
// has one (Queue::device_memory); a device's backend implements it (kernels/cuda/queue.h).
//
// Everything is in the order of the queue: a copy sees what kernels submitted before it wrote, and memory that is
// freed on the host may be dealt out again at once, as what uses it next is submitted later.
// Thread rule: as Queue, one thread at a time; allocate() and release() from any thread.
#pragma once

#include <memory>
#include <optional>

#include "athanor/tensor/copy_lane.h"
#include "athanor/tensor/slab.h"

namespace athanor {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::optional<Slab> allocate(
      uint64_t size_bytes) = 0;                // not cleared; nothing where the device is full
  virtual void release(const Slab& slab) = 0;  // waits for what was submitted

  virtual void copy_in(void* to, const void* from_host,
                       uint64_t size_bytes) = 0;  // the host's may change at once
  virtual void copy_out(void* to_host, const void* from, uint64_t size_bytes) = 0;  // waits
  virtual void copy(void* to, const void* from, uint64_t size_bytes) = 0;
  virtual void clear(void* to, uint64_t size_bytes) = 0;
  virtual std::unique_ptr<CopyLane> open_copy_lane() = 0;  // the queue outlives it
};

}  // namespace athanor
