// Activation offload to the host: activations of a device's blocks in pinned host memory (autograd/activation_store.h).
// They are copied out while the next block computes, and copied back while the backward pass is in the block above.
//
//   HostActivations store(arena, host);           // `host`: the arena that accounts for the pinned memory
//   context.activations = &store;
//
// Extra device memory: the activations of one block. In the forward pass these are the activations being copied out;
// their memory is freed when the next block has ended. In the backward pass they are those of the next block needed.
// The last block's activations, whose copy out is still running when they are needed, are used from device memory.
// The host waits for no copy (tensor/copy_lane.h). Errors: Error for an arena of the CPU. Thread rule: one thread, that
// of the queue.
#pragma once

#include <map>
#include <optional>

#include "athanor/autograd/activation_store.h"
#include "athanor/tensor/copy_lane.h"

namespace athanor::engine {

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
    std::vector<std::shared_ptr<Storage>> here;  // device memory while a copy out or in is under way
    std::shared_ptr<Storage> there;              // pinned host memory
    uint64_t copy = 0;                           // id of this block's last copy
  };
  std::shared_ptr<Storage> take_pinned(uint64_t size_bytes);
  void finish_storing();
  void start_fetching(Block& block);
  void await(const Block& block);

  Arena &arena_, &host_;
  std::map<int64_t, Block> blocks_;
  std::multimap<uint64_t, std::shared_ptr<Storage>> free_;  // by size
  std::optional<int64_t> storing_;                          // the block that is being copied out
  int64_t next_ticket_ = 0;
  std::unique_ptr<CopyLane> lane_;  // null on the null device; destroyed before the memory that it copies
};

}  // namespace athanor::engine
