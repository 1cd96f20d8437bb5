// Activations of a device's blocks in pinned memory of the host (autograd/activation_store.h): copied there while the
// next block computes, and back while the block above goes backwards.
//
//   HostActivations store(arena, host);           // `host` accounts for what lies there
//   context.activations = &store;
//
// The device keeps those of one block beside what the passes themselves use: in the forward pass those on their way out,
// whose memory is given back when the next block has ended; in the backward pass those of the block that comes next.
// The last block's, still on their way when they are needed, are taken as they are. The host waits for no copy
// (tensor/copy_lane.h). Thread rule: one thread, that of the queue.
#pragma once

#include <map>
#include <optional>

#include "athanor/autograd/activation_store.h"
#include "athanor/tensor/copy_lane.h"

namespace athanor {

class HostActivations final : public ActivationStore {
 public:
  HostActivations(Arena& arena, Arena& host);

  int64_t put(std::span<const std::shared_ptr<Storage>> storages) override;
  void get(int64_t ticket) override;
  void drop(int64_t ticket) noexcept override;

 private:
  struct Block {
    std::vector<std::weak_ptr<Storage>> storages;
    std::vector<uint64_t> sizes;
    std::vector<std::shared_ptr<Storage>> here;  // the device's memory while it is on its way out or in
    std::shared_ptr<Storage> there;              // the host's
    uint64_t copy = 0;                           // the last one of its copies
  };
  std::shared_ptr<Storage> take_pinned(uint64_t size_bytes);
  void finish_storing();
  void start_fetching(Block& block);
  void await(const Block& block);

  Arena &arena_, &host_;
  std::map<int64_t, Block> blocks_;
  std::multimap<uint64_t, std::shared_ptr<Storage>> free_;  // by size
  std::optional<int64_t> storing_;                          // the block that is on its way out
  int64_t next_ticket_ = 0;
  std::unique_ptr<CopyLane> lane_;  // null on the null device; goes before the memory that it copies
};

}  // namespace athanor
