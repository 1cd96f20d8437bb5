#include "athanor/engine/host_activations.h"

#include "athanor/tensor/device_memory.h"

namespace athanor::engine {

HostActivations::HostActivations(Arena& arena, Arena& host) : arena_(arena), host_(host) {
  Queue& queue = arena.queue();
  check(queue.device() != Device::cpu, "activations in the host's memory: got the {}, expected a device",
        name_of(queue.device()));
  if (queue.device_memory() != nullptr) lane_ = queue.device_memory()->open_copy_lane();
}

std::shared_ptr<Storage> HostActivations::take_pinned(uint64_t size_bytes) {
  if (const auto found = free_.find(size_bytes); found != free_.end()) {
    std::shared_ptr<Storage> pinned = std::move(found->second);
    free_.erase(found);
    return pinned;
  }
  return lane_ ? host_.adopt(lane_->allocate_pinned(size_bytes), size_bytes, Category::activations)
               : host_.allocate(size_bytes, Category::activations);
}

void HostActivations::await(const Block& block) {
  if (lane_) lane_->await(block.copy);
}

void HostActivations::finish_storing() {
  if (!storing_) return;
  Block& block = blocks_.at(*storing_);
  await(block);
  block.here.clear();
  storing_.reset();
}

int64_t HostActivations::put(std::span<const std::shared_ptr<Storage>> storages) {
  finish_storing();
  Block block;
  uint64_t total = 0;
  for (const auto& storage : storages) {
    block.storages.push_back(storage);
    block.sizes.push_back(storage->size_bytes());
    // Takes the device memory over; tensors that share the storage see it as released.
    block.here.push_back(std::make_shared<Storage>(arena_, nullptr, storage->size_bytes(),
                                                   storage->category(),
                                                   /*fresh=*/false));
    block.here.back()->take(*storage);
    total += storage->size_bytes();
  }
  block.there = take_pinned(total);
  std::byte* to = block.there->data();
  for (size_t i = 0; i < storages.size(); ++i) {
    if (lane_) block.copy = lane_->start(to, block.here[i]->data(), block.sizes[i]);
    to += block.sizes[i];
  }
  const int64_t ticket = next_ticket_++;
  blocks_.emplace(ticket, std::move(block));
  storing_ = ticket;
  return ticket;
}

void HostActivations::start_fetching(Block& block) {
  if (!block.here.empty()) return;
  const std::byte* from = block.there->data();
  for (size_t i = 0; i < block.storages.size(); ++i) {
    const auto storage = block.storages[i].lock();
    const bool is_needed = storage != nullptr && storage->released();
    block.here.push_back(is_needed ? arena_.allocate(block.sizes[i], storage->category()) : nullptr);
    if (is_needed && lane_) block.copy = lane_->start(block.here[i]->data(), from, block.sizes[i]);
    from += block.sizes[i];
  }
}

void HostActivations::get(int64_t ticket) {
  const auto found = blocks_.find(ticket);
  Block& block = found->second;
  if (storing_ == ticket) {
    storing_.reset();  // the copy out may still run, but its result is not needed any more
  } else {
    finish_storing();
    start_fetching(block);
    await(block);
  }
  // The backward pass needs the block below next.
  if (found != blocks_.begin()) start_fetching(std::prev(found)->second);
  for (size_t i = 0; i < block.storages.size(); ++i)
    if (const auto storage = block.storages[i].lock();
        storage != nullptr && storage->released() && block.here[i] != nullptr)
      storage->take(*block.here[i]);
  free_.emplace(block.there->size_bytes(), std::move(block.there));
  blocks_.erase(found);
}

void HostActivations::drop(int64_t ticket) noexcept {
  const auto found = blocks_.find(ticket);
  if (found == blocks_.end()) return;
  Block& block = found->second;
  if (lane_ && !block.here.empty()) lane_->await_all();
  if (storing_ == ticket) storing_.reset();
  free_.emplace(block.there->size_bytes(), std::move(block.there));
  blocks_.erase(found);
}

}  // namespace athanor::engine
