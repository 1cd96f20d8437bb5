// All memory has a name (law 7): every tensor and scratch byte of a rank comes from an Arena under a
// category, and the arena knows what is in use and what the peak was.
//
//   Arena arena(queue);
//   Tensor x = empty(arena, {4, 256}, Dtype::bf16, Category::activations);
//   arena.usage().peak_total
//
// Blocks are cut best-fit from one range of addresses and merged again when freed; nothing goes back to the system
// before the arena does. So a step that repeats needs no new memory after the first, and what is held stays close
// to the peak in use. On the null device addresses are dealt out by the same code without memory behind them, so
// a dry run predicts what is held to the byte.
//
// The system clears pages as they are first touched. In the thread that made the arena this is done ahead of use,
// by all threads of the queue: a step that touches its memory for the first time waits for it in parallel, and on
// machines with several memory nodes the pages lie at the node of the rank's threads.
// Thread rule: allocate and free from any thread. The arena outlives its tensors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/tensor/queue.h"

namespace athanor {

enum class Category : uint8_t { parameters, gradients, optimizer, activations, communication, workspace };
constexpr int kNumCategories = 6;
const char* name_of(Category category);

struct MemoryUsage {
  std::array<uint64_t, kNumCategories> current{}, peak{};  // bytes, each category's own peak
  uint64_t current_total = 0;
  uint64_t peak_total = 0;      // of the sum: less than the sum of the categories' peaks
  uint64_t reserved_total = 0;  // in whole pages of 2 MiB ever dealt out: what the process really holds
  uint64_t slabs = 0;           // ranges of addresses that the system was asked for
};

// A piece of memory; freed when the last tensor on it goes, or before that when it is released.
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
  // Gives the memory back while tensors still share it; they may not be read until take() has given this storage
  // the memory of another one of its size, which is released in turn.
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
  // limit_bytes: OverLimit, naming what is held, where reserved_total would be larger (0: no limit).
  explicit Arena(Queue& queue, uint64_t limit_bytes = 0);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::shared_ptr<Storage> allocate(uint64_t size_bytes, Category category);  // 64-byte aligned, not cleared
  // Memory that came from elsewhere, such as what the ranks of a host share: accounted for like the arena's own,
  // under huge pages where the system grants them, and let go with the last tensor on it. Cleared, 64-byte aligned.
  std::shared_ptr<Storage> adopt(std::shared_ptr<std::byte> memory, uint64_t size_bytes, Category category);
  // Notes what allocate() gives out from now on, at the end of `list`; null: no more. One list at a time.
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

}  // namespace athanor
