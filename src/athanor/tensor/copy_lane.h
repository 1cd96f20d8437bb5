// Asynchronous copies between a device's memory and pinned host memory, on a stream of their own: the queue computes at
// the same time, and the host waits for no copy. Offloading uses it.
//
//   const std::unique_ptr<CopyLane> lane = queue.device_memory()->open_copy_lane();
//   const std::shared_ptr<std::byte> host = lane->allocate_pinned(size_bytes);
//   const uint64_t copy = lane->start(host.get(), x.raw(), size_bytes);
//   ...                        // work submitted here runs beside the copy, so it must not write to x
//   lane->await(copy);         // work submitted from now on runs after the copy
//
// Memory that a copy reads or writes may go back to its arena only after await(): its next user submits to the queue.
// Errors: Error with the device's message. Thread rule: that of the queue; pinned memory from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "athanor/base/namespaces.h"

namespace athanor::tensor {

class CopyLane {
 public:
  virtual ~CopyLane() = default;  // waits for all copies

  // Cleared pinned host memory. It may outlive the lane, but must outlive the copies that use it.
  virtual std::shared_ptr<std::byte> allocate_pinned(uint64_t size_bytes) = 0;
  // Starts a copy, ordered after the work submitted to the queue so far and after earlier copies. Returns the copy's
  // number, from 1.
  virtual uint64_t start(void* to, const void* from, uint64_t size_bytes) = 0;
  virtual void await(uint64_t copy) = 0;  // the queue waits, not the host; 0: nothing to wait for
  virtual void await_all() noexcept = 0;  // for every copy; an error shows at the queue's next wait
};

}  // namespace athanor::tensor
