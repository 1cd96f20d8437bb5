// What a rank has sent: calls and bytes of every operation since its group was made.
//
//   const Traffic before = group.traffic();
//   ...                                                        // a step, all of its Works waited for
//   const Traffic step = group.traffic() - before;
//   step.of(Collective::all_gather).bytes; step.total().bytes;
//
// Bytes count once for every rank that receives them: those of a rank's memory, or of sums that it formed. Not counted:
// data that stay on the rank, announcements, headers and barriers. A call counts when it has run. docs/collectives.md
// has each transport's formulas; the transports within a host (thread, shm) and planned groups (comm/null.h) use
// direct_bytes(). Thread rule: Traffic is a value; a TrafficCounter is used from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "athanor/comm/call.h"

namespace athanor::comm {

struct OperationTraffic {
  int64_t calls = 0, bytes = 0;
  bool operator==(const OperationTraffic&) const = default;
};

class Traffic {
 public:
  void add(Collective operation, int64_t bytes, int64_t calls = 1);
  const OperationTraffic& of(Collective operation) const {
    return operations_[static_cast<size_t>(operation)];
  }
  OperationTraffic total() const;
  Traffic& operator+=(const Traffic& other);
  friend Traffic operator-(const Traffic& later, const Traffic& earlier);
  bool operator==(const Traffic&) const = default;

 private:
  std::array<OperationTraffic, kNumCollectives> operations_{};
};

class TrafficCounter {
 public:
  void add(Collective operation, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    traffic_.add(operation, bytes);
  }
  Traffic traffic() const {
    const std::lock_guard lock(mutex_);
    return traffic_;
  }

 private:
  mutable std::mutex mutex_;
  Traffic traffic_;
};

// Even partition of `count` elements: how many rank r has. The first count mod size ranks have one more.
int64_t even_part(int64_t count, int size, int rank);

// Bytes that this rank sends if each rank sums its even part and every rank fetches what it needs from its owner,
// S = count * size_of(dtype) bytes:
//
//   all_reduce       S - part + (size-1) part      part: the bytes of this rank's even_part; 2 (size-1)/size S where
//                                                  size divides count
//   all_reduce_tree  nodes (S - part) + (size-1) part          nodes: those of this rank
//   all_gather, reduce_scatter, all_to_all   (size-1) S        S of one row
//   all_to_all_v     the bytes for other ranks
//   broadcast, scatter   (size-1) S on the root; reduce, gather   S on all others
//   send             S, to another rank
//
// Both transports within a host count so, whichever way the data take (slots, sums of small buffers on every rank, in
// place).
int64_t direct_bytes(const Call& call, const Buffers& buffers, int rank, int size);

}  // namespace athanor::comm
