// The memory allocator of a rank (a caching allocator). All memory has a name (law 7): every tensor and scratch byte
// comes from an Arena under a category, and the arena knows what is in use and what the peak was.
//
//   Arena arena(queue);
//   Tensor x = empty(arena, {4, 256}, Dtype::bf16, Category::activations);
//   const uint64_t peak_bytes = arena.usage().peak_total;
//
// Blocks are allocated best-fit from slabs of address space and merged again when freed. Nothing goes back to the
// system before the arena is destroyed. So a step that repeats needs no new memory after the first, and the reserved
// memory stays close to the peak in use. On the null device the same code hands out addresses without memory behind
// them, so a dry run predicts the reserved memory to the byte.
//
// The system clears pages when they are first touched. The thread that made the arena lets all threads of the queue
// touch new pages ahead of use: clearing runs in parallel, and on NUMA machines the pages lie at the node of the rank's
// threads.
// Thread rule: allocate and free from any thread. The arena outlives its tensors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/tensor/queue.h"

namespace athanor::tensor {

enum class Category : uint8_t {
  parameters,
  gradients,
  optimizer,
  snapshot,
  activations,
  communication,
  workspace
};
constexpr int kNumCategories = 7;
const char* name_of(Category category);

struct MemoryUsage {
  std::array<uint64_t, kNumCategories> current{}, peak{};  // bytes, each category's own peak
  uint64_t current_total = 0;
  uint64_t peak_total = 0;      // of the sum: less than the sum of the categories' peaks
  uint64_t reserved_total = 0;  // what the process really holds: whole pages of 2 MiB ever in use
  uint64_t slabs = 0;           // slabs of address space obtained from the system
};

// An allocation. It is freed with the last tensor on it, or earlier by release().
class Storage {
 public:
  Storage(class Arena& arena, std::byte* data, uint64_t size_bytes, Category category, bool fresh)
      : arena_(arena), data_(data), size_bytes_(size_bytes), category_(category), fresh_(fresh) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Arena& arena() const { return arena_; }
  std::byte* data() const { return data_; }
  uint64_t size_bytes() const { return size_bytes_; }
  Category category() const { return category_; }
  // release() gives the memory back while tensors still share the storage; these tensors may not be read until take()
  // has moved in the memory of `from`, a storage of the same size and category, which is then released.
  void release();
  bool released() const { return data_ == nullptr; }
  void take(Storage& from);
  bool fresh() const { return fresh_; }  // never used before: it was all zero when it was allocated

 private:
  Arena& arena_;
  std::byte* data_;
  uint64_t size_bytes_;
  Category category_;
  bool fresh_;
};

// The limit of an arena is reached.
class OverLimit : public Error {
 public:
  using Error::Error;
};

class Arena {
 public:
  // Zeroed memory of this rank that other ranks of its host can address (World::allocate).
  using Shareable = std::function<std::shared_ptr<std::byte>(size_t size_bytes)>;
  // limit_bytes: an allocation that would make reserved_total larger throws OverLimit, naming what is held. 0: no
  // limit. `shareable`: the source of allocate_shareable(); empty: memory of the process.
  explicit Arena(Queue& queue, uint64_t limit_bytes = 0, Shareable shareable = {});
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::shared_ptr<Storage> allocate(uint64_t size_bytes, Category category);  // 64-byte aligned, not cleared
  // Zeroed memory that a group can share between the ranks of a host (Group::share); page-aligned. It belongs to the
  // arena's tensors, not to a group: it outlives one that has broken.
  std::shared_ptr<Storage> allocate_shareable(uint64_t size_bytes, Category category);
  // A storage on memory from outside the arena. `memory` is 64-byte aligned and keeps what it holds; it gets huge pages
  // where the system grants them, is accounted for like the arena's own, and is let go with the last tensor on it.
  std::shared_ptr<Storage> adopt(std::shared_ptr<std::byte> memory, uint64_t size_bytes, Category category);
  // From now on allocate() appends every storage to `list`; null ends this. One list at a time.
  void watch(std::vector<std::weak_ptr<Storage>>* list);
  Queue& queue() const { return queue_; }
  MemoryUsage usage() const;
  void reset_peak();  // peaks start again from what is in use

 private:
  friend class Storage;
  void free(std::byte* data, uint64_t size_bytes, Category category);

  struct State;
  Queue& queue_;
  std::unique_ptr<State> state_;
};

}  // namespace athanor::tensor
