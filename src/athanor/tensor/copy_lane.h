// Copies between a device's memory and pinned memory of the host, beside the queue's work: they are in an order of
// their own (a stream), the queue computes meanwhile, and the host waits for none of them.
//
//   const std::unique_ptr<CopyLane> lane = queue.device_memory()->open_copy_lane();
//   const std::shared_ptr<std::byte> there = lane->allocate_pinned(size_bytes);
//   const uint64_t moved = lane->start(there.get(), x.raw(), size_bytes);
//   ...                                       // what the queue is given here runs beside the copy: it leaves x alone
//   lane->await(moved);                       // what it is given from now on comes after the copy
//
// So memory that a copy reads or writes goes back to its arena only after await(): who is given it next submits to the
// queue. Errors: Error with the device's words. Thread rule: that of the queue; pinned memory from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace athanor {

class CopyLane {
 public:
  virtual ~CopyLane() = default;  // waits for what was started

  // Cleared; outlives the lane where its owner does, but not the copies.
  virtual std::shared_ptr<std::byte> allocate_pinned(uint64_t size_bytes) = 0;
  // Comes after what the queue was given so far, and after the copies started before. Returns its number, from 1.
  virtual uint64_t start(void* to, const void* from, uint64_t size_bytes) = 0;
  virtual void await(uint64_t copy) = 0;  // 0: nothing to wait for
  virtual void await_all() noexcept = 0;  // an error is left to the queue's next wait
};

}  // namespace athanor
