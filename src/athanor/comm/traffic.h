// What a rank has put on the wire: calls and bytes of every operation since its group was made.
//
//   const Traffic before = group.traffic();
//   ...                                                        // a step, all of its Works waited for
//   const Traffic step = group.traffic() - before;
//   step.of(Collective::all_gather).bytes; step.total().bytes;
//
// Bytes are those of a rank's memory, or of sums that it formed, that go to other ranks: once for every rank that
// gets them. Nothing is counted for what stays on the rank, for announcements, headers and barriers. A call counts
// when it has been carried out. The formulas of each transport stand in docs/collectives.md; for the transports
// within a host (thread, shm) and for planned groups (comm/null.h) they are direct_bytes().
// Thread rule: Traffic is a value; a TrafficCounter is used from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "athanor/comm/call.h"

namespace athanor {

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

// Of `count` elements dealt out evenly, those of rank r: the first count mod size ranks have one more.
int64_t even_part(int64_t count, int size, int rank);

// What this rank gives to the others if each rank sums its even part and everybody fetches what it needs from whoever
// has it, S = count * size_of(dtype) bytes:
//
//   all_reduce       S - part + (size-1) part      part: the bytes of this rank's even_part; 2 (size-1)/size S where
//                                                  size divides count
//   all_reduce_tree  nodes (S - part) + (size-1) part          `extra`: the nodes of this rank
//   all_gather, reduce_scatter, all_to_all   (size-1) S        S of one row
//   all_to_all_v     `extra` elements, those for other ranks
//   broadcast, scatter   (size-1) S on the root; reduce, gather   S on all others
//   send             S, to another rank
//
// Both transports of a host count so whatever way the data took (slots, sums of small buffers on every rank, in place).
int64_t direct_bytes(const Call& call, int rank, int size, int64_t extra = 0);

}  // namespace athanor
