#include "athanor/run/left_slots.h"

#include <unistd.h>

#include <cstring>

#include "athanor/base/error.h"
#include "athanor/base/shared_memory.h"

namespace athanor::run {

LeftSlots::LeftSlots(int fd, const std::string& run) {
  const off_t size_bytes = lseek(fd, 0, SEEK_END);
  if (size_bytes < 0) throw IoError(std::string("slots of a lost rank: ") + std::strerror(errno), errno);
  if (size_bytes == 0) return;  // it died before it had any
  size_bytes_ = static_cast<uint64_t>(size_bytes);
  memory_ = map_shared_memory(size_bytes_, fd);
  std::vector<SlotFinding> findings;
  slots_ = SlotReader::whole({memory_.get(), size_bytes_}, {.run = run}, &findings);
  for (const SlotFinding& finding : findings)
    if (finding.state == SlotState::foreign || finding.state == SlotState::flipped)
      refused_.push_back(finding.reason);
}

std::vector<HeldPart> LeftSlots::held() const {
  std::vector<HeldPart> held;
  for (const SlotReader& slot : slots_) {
    const SlotIdentity identity = slot.identity();
    held.push_back({.part = {.generation = identity.generation, .rank = identity.rank, .size = identity.size},
                    .steps = {slot.step()}});
  }
  return held;
}

const SlotReader* LeftSlots::of(const CommonStep& common) const {
  for (const SlotReader& slot : slots_)
    if (slot.generation() == common.generation && slot.step() == common.step) return &slot;
  return nullptr;
}

}  // namespace athanor::run
