// The shared memory of one generation of the ranks of a host, which their agent holds: the segment over which they
// communicate, and for each rank the memory of its slots (checkpoint/format/slots.h). Thread rule: one thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "athanor/base/shared_memory.h"
#include "athanor/comm/shm/shm.h"
#include "athanor/control/descriptor.h"

namespace athanor::launch {

// IoError if the system gives none.
struct GenerationMemory {
  GenerationMemory(int size, int generation) : segment(size, GroupOptions{}.slot_bytes, generation) {
    for (int rank = 0; rank < size; ++rank) slots.emplace_back(create_shared_memory("athanor snapshot", 0));
  }
  // That of an agent which is gone.
  GenerationMemory(control::Descriptor memory, std::vector<control::Descriptor> slots_by_rank)
      : segment(ShmSegment::adopt(memory.release())), slots(std::move(slots_by_rank)) {}
  int size() const { return static_cast<int>(slots.size()); }

  ShmSegment segment;
  std::vector<control::Descriptor> slots;  // by rank
};

}  // namespace athanor::launch
