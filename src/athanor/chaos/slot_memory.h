// The slots of a rank's snapshot (checkpoint/format/slots.h) as its launcher holds them, mapped so that bits in them can be
// flipped from outside.
//
//   if (auto slots = SlotMemory::of_rank(launcher, /*rank=*/1); slots && !slots->is_being_written()) slots->flip(0.37);
//
// Of several pieces of memory of one rank the one with the newest commit counts. Nobody may write it meanwhile: stop whoever
// does. Errors: those of slot_reader.h for slots that are none. Thread rule: one thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "athanor/base/namespaces.h"
#include "athanor/checkpoint/format/slot_header.h"

namespace athanor::chaos {

class SlotMemory {
 public:
  // none: the launcher holds no slots of this rank with a commit
  static std::optional<SlotMemory> of_rank(pid_t launcher, int rank);

  bool is_being_written() const;
  // One bit of the values in the slot of the newest commit: `where` says which, [0, 1).
  void flip(double where);
  // One bit of a value of each tensor of all slots, one that changes it much, and the checksums with them: nobody can tell.
  void falsify();

 private:
  static void falsify(std::byte* from);
  SlotMemory(std::shared_ptr<std::byte> memory, size_t size_bytes)
      : memory_(std::move(memory)), size_bytes_(size_bytes) {}
  struct Newest {
    int slot;
    uint64_t number;
  };
  std::optional<Newest> newest() const;
  int num_slots() const { return checkpoint::format::num_slots_in({memory_.get(), size_bytes_}); }
  std::byte* slot(int which) const {
    return memory_.get() + static_cast<size_t>(which) * (size_bytes_ / static_cast<size_t>(num_slots()));
  }

  std::shared_ptr<std::byte> memory_;
  size_t size_bytes_;
};

}  // namespace athanor::chaos
