// The slots of a rank that is gone, or of this rank's predecessor: their memory was held by whoever outlives the ranks, and
// this process gives what they hold to the others.
//
//   const LeftSlots left(fd, run_identity(folder));
//   for (const HeldPart& part : left.held()) held.push_back(part);   // for common_step()
//   if (const SlotReader* slot = left.of(common)) snapshot.add(*slot, arena);
//
// Errors: IoError where the memory cannot be mapped. Slots that are not whole, or of another run, hold nothing: refused()
// says why. Thread rule: const after construction.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/checkpoint/snapshot.h"

namespace athanor::run {

class LeftSlots {
 public:
  LeftSlots(int fd, const std::string& run);  // maps them: the descriptor may be closed afterwards

  std::vector<HeldPart> held() const;                    // empty: nothing whole
  const SlotReader* of(const CommonStep& common) const;  // null: these hold nothing of it
  const std::shared_ptr<std::byte>& memory() const { return memory_; }
  uint64_t size_bytes() const { return size_bytes_; }
  const std::vector<std::string>& refused() const { return refused_; }

 private:
  std::shared_ptr<std::byte> memory_;
  uint64_t size_bytes_ = 0;
  std::vector<SlotReader> slots_;
  std::vector<std::string> refused_;
};

}  // namespace athanor::run
