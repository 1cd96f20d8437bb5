#include "athanor/engine/activation_file.h"

#include <cstring>

namespace athanor::engine {

ActivationFile::ActivationFile(Env& env, const std::string& folder, Arena& arena)
    : arena_(arena), records_(env, folder, "activations") {
  records_.allocate(arena, Category::workspace);
}

ActivationFile::~ActivationFile() {
  records_.drain();  // before the copies go
}

int ActivationFile::take_record(uint64_t size_bytes) {
  if (const auto found = free_.find(size_bytes); found != free_.end()) {
    const int record = found->second;
    free_.erase(found);
    return record;
  }
  return records_.add("those of a block", size_bytes);
}

void ActivationFile::finish_write() {
  if (!writing_) return;
  Block& block = blocks_.at(*writing_);
  records_.finish(block.record);
  block.copy = {};
  writing_.reset();
}

int64_t ActivationFile::put(std::span<const std::shared_ptr<Storage>> storages) {
  finish_write();
  Block block{.storages = {}, .sizes = {}, .record = 0, .copy = {}};
  uint64_t total = 0;
  for (const auto& storage : storages) {
    block.storages.push_back(storage);
    block.sizes.push_back(storage->size_bytes());
    total += storage->size_bytes();
  }
  block.record = take_record(total);
  block.copy = records_.make_buffer(total, Category::workspace);
  auto* to = static_cast<std::byte*>(block.copy.raw());
  for (const auto& storage : storages) {
    if (arena_.queue().device() == Device::cpu) std::memcpy(to, storage->data(), storage->size_bytes());
    to += storage->size_bytes();
    storage->release();
  }
  records_.start_write(block.record, block.copy);
  const int64_t ticket = next_ticket_++;
  blocks_.emplace(ticket, std::move(block));
  writing_ = ticket;
  return ticket;
}

void ActivationFile::start_read(Block& block) {
  if (block.copy.defined()) return;
  uint64_t total = 0;
  for (const uint64_t size : block.sizes) total += size;
  block.copy = records_.make_buffer(total, Category::workspace);
  records_.start_read(block.record, block.copy);
}

void ActivationFile::get(int64_t ticket) {
  finish_write();
  const auto found = blocks_.find(ticket);
  Block& block = found->second;
  start_read(block);
  records_.finish(block.record);
  // The backward pass needs the block below next.
  if (found != blocks_.begin()) start_read(std::prev(found)->second);
  const auto* from = static_cast<const std::byte*>(block.copy.raw());
  for (size_t i = 0; i < block.storages.size(); ++i) {
    if (const auto storage = block.storages[i].lock(); storage != nullptr && storage->released()) {
      const auto fresh = arena_.allocate(block.sizes[i], storage->category());
      if (arena_.queue().device() == Device::cpu) std::memcpy(fresh->data(), from, block.sizes[i]);
      storage->take(*fresh);
    }
    from += block.sizes[i];
  }
  free_.emplace(records_.size_of(block.record), block.record);
  blocks_.erase(found);
}

void ActivationFile::drop(int64_t ticket) noexcept {
  const auto found = blocks_.find(ticket);
  if (found == blocks_.end()) return;
  if (found->second.copy.defined()) {
    try {
      records_.finish(found->second.record);
    } catch (const Failure&) {  // nobody asks for these bytes any more
    }
  }
  if (writing_ == ticket) writing_.reset();
  free_.emplace(records_.size_of(found->second.record), found->second.record);
  blocks_.erase(found);
}

}  // namespace athanor::engine
