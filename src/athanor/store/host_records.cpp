#include "athanor/store/host_records.h"

#include <algorithm>
#include <array>

#include "athanor/tensor/device_memory.h"

namespace athanor::store {
namespace {

uint64_t aligned(uint64_t size_bytes) {
  constexpr uint64_t kAlignment = 64;
  return (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// A buffer and the last copy that reads or writes it.
struct Slot {
  std::shared_ptr<Storage> buffer;
  uint64_t copy = 0;
};

// Returns the buffers to their arena once no copy uses them, also after an exception.
class Settled {
 public:
  explicit Settled(CopyLane* lane) : lane_(lane) {}
  ~Settled() {
    if (lane_ != nullptr) lane_->await_all();
  }
  Settled(const Settled&) = delete;
  Settled& operator=(const Settled&) = delete;

 private:
  CopyLane* lane_;
};

}  // namespace

int HostRecords::add(const std::string& name, uint64_t size_bytes) {
  check(arena_ == nullptr, "records: '{}' comes after the memory was allocated", name);
  records_.push_back({.size_bytes = size_bytes, .offset = all_bytes_});
  all_bytes_ += aligned(size_bytes);
  return static_cast<int>(records_.size()) - 1;
}

void HostRecords::allocate(Arena& arena, Category category) {
  Queue& queue = arena.queue();
  check(queue.device() != Device::cpu, "records in the host's memory: got the {}, expected a device",
        name_of(queue.device()));
  arena_ = &arena;
  if (queue.device_memory() != nullptr) lane_ = queue.device_memory()->open_copy_lane();
  if (all_bytes_ == 0) return;
  there_ = lane_ ? host_.adopt(lane_->allocate_pinned(all_bytes_), all_bytes_, category)
                 : host_.allocate(all_bytes_, category);
}

std::vector<Tensor> HostRecords::views(const std::shared_ptr<Storage>& buffer, const Item& item) const {
  std::vector<Tensor> bytes;
  uint64_t at = 0;
  for (const int index : item) {
    const uint64_t size_bytes = record(index).size_bytes;
    bytes.push_back({buffer, at, {static_cast<int64_t>(size_bytes)}, Dtype::u8});
    at += aligned(size_bytes);
  }
  return bytes;
}

void HostRecords::stream(std::span<const Item> items, Access access, const Visit& visit) {
  uint64_t most = 0;
  for (const Item& item : items) {
    uint64_t size_bytes = 0;
    for (const int index : item) size_bytes += aligned(record(index).size_bytes);
    most = std::max(most, size_bytes);
  }
  std::array<Slot, 2> slots;
  for (size_t i = 0; i < std::min(slots.size(), items.size()); ++i)
    slots[i].buffer = arena_->allocate(most, Category::workspace);
  const Settled settled(lane_.get());
  const auto move = [&](size_t item, bool fetches) {
    if (lane_ == nullptr) return;
    Slot& slot = slots[item % slots.size()];
    const std::vector<Tensor> here = views(slot.buffer, items[item]);
    for (size_t i = 0; i < here.size(); ++i) {
      std::byte* there = there_->data() + record(items[item][i]).offset;
      void* of_device = here[i].raw();
      slot.copy = fetches ? lane_->start(of_device, there, here[i].size_bytes())
                          : lane_->start(there, of_device, here[i].size_bytes());
    }
  };
  const auto fetch = [&](size_t item) {
    if (access != Access::write && item < items.size()) move(item, true);
  };
  fetch(0);
  for (size_t item = 0; item < items.size(); ++item) {
    // Copies into the buffer of the previous item, after that item was used and copied out.
    fetch(item + 1);
    const Slot& slot = slots[item % slots.size()];
    if (lane_ != nullptr) lane_->await(slot.copy);
    std::vector<Tensor> bytes = views(slot.buffer, items[item]);
    visit(item, bytes);
    if (access != Access::read) move(item, false);
  }
}

}  // namespace athanor::store
