// A rank's snapshot: its state in memory that other processes can read after a kill. Two slots, A and B, lie one after the
// other in one piece of shared memory (base/shared_memory.h). Step n is written into the slot that does not hold step
// n - 1, so at any instant one of the two is whole, and at most one step old. With a third one a step can be pinned: whoever
// holds the memory reads it for as long as it takes (persist.h), while the steps that follow change between the other two.
//
//   const uint64_t bytes = snapshot_bytes(tensors, kStateBytes);            // known before anything is allocated
//   const int fd = create_shared_memory("snapshot", bytes);                 // by the parent, which outlives the writer
//   const auto memory = map_shared_memory(bytes, fd);
//   SlotWriter slots({memory.get(), bytes}, tensors, {.run = run, .layout = layout, .rank = rank}, kStateBytes);
//   slots.begin(step);                                                      // before the first byte changes
//   update(slots.committed(0), slots.data(0), slots.checksums(0));          // the optimizer, out of place; or
//   slots.copy(1, values);                                                  // a copy of what changed in place
//   slots.commit(state);
//
//   slot    header, a page | manifest, the tensors as JSON | TrainState as JSON | block checksums | data
//   header  slot_header.h; marked as being written by begin(), as committed by commit(), whose last store that is
//   data    tensors at multiples of 64 bytes, staggered, each with checksums of its own blocks (base/block_checksum.h)
//
// pin(), begin() and commit() allocate nothing, lock nothing and call nothing of the system. slot_reader.h reads and verifies.
// Errors: Error for memory that holds another run's or layout's slots (they stay as they are), for a state that is too
// long (the slot stays uncommitted), and for calls out of order. Thread rule: one thread; the data and checksums of one
// step may be written by many, all of which have finished before commit().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/tensor/box.h"
#include "athanor/tensor/dtype.h"

namespace athanor::checkpoint::format {

constexpr int kMostSlots = 3;
constexpr uint64_t kStateBytes = uint64_t{1}
                                 << 20;  // a capacity for TrainState as JSON that suffices for most runs

// Elements of a logical tensor that this rank holds: boxes of it, one after the other, and then padding. A ZeRO shard, a
// flat range, is several boxes.
struct SlotTensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  Shape shape;             // of the logical tensor
  std::vector<Box> boxes;  // each dense
  int64_t padding = 0;     // elements after the last box, of no meaning

  int64_t numel() const;
  uint64_t size_bytes() const { return static_cast<uint64_t>(numel()) * size_of(dtype); }
};

// The names of run and layout are hashes or short texts, of at most kIdentityBytes.
constexpr size_t kIdentityBytes = 63;
struct SlotIdentity {
  std::string run, layout;
  int rank = 0, size = 1;  // of the world
  int64_t generation = 0;  // of the world; an older one's slots are stale to a reader that expects this one
};

// Bytes of all slots, a multiple of kSharedUnit: the size of the file of memory is the size of the snapshot, and says how
// many slots it has: 2, or 3 so that one can be pinned.
// `state_capacity`: the longest TrainState. A parameter's tensors are best listed one after the other.
uint64_t snapshot_bytes(std::span<const SlotTensor> tensors, uint64_t state_capacity, int num_slots = 2);

// What the memory holds is no snapshot from now on, so that a SlotWriter of any list takes it. Its data are not zeroed.
void erase_slots(std::span<std::byte> memory);
// Whoever read a pinned slot is done with it, or gone.
void release_pins(std::span<std::byte> memory);

class SlotWriter {
 public:
  // Takes zeroed memory of snapshot_bytes(), or memory with slots of this run, layout, rank and list of tensors: then the
  // newest whole one counts as committed, which is found by reading all.
  SlotWriter(std::span<std::byte> memory, std::span<const SlotTensor> tensors, const SlotIdentity& identity,
             uint64_t state_capacity);
  // The same for memory of which the caller knows that slot `whole` is: it is not read, and the others count as empty.
  SlotWriter(std::span<std::byte> memory, std::span<const SlotTensor> tensors, const SlotIdentity& identity,
             uint64_t state_capacity, int whole);

  // Marks a slot that is neither the newest commit nor pinned as being written, and returns which. A step that was begun and
  // not committed is given up.
  int begin(int64_t step);
  // The step that was begun is whole from now on, with `state`, one JSON object.
  void commit(std::string_view state);

  // No step is written into the slot of the newest commit until release_pins(). False: there are but two slots, or one is
  // pinned already. unpin() takes it back before anyone reads it.
  bool pin();
  void unpin();
  std::optional<int64_t> pinned_step() const;

  std::optional<int64_t> committed_step() const;
  int64_t generation(int slot) const;                    // of its commit
  const std::byte* committed(size_t tensor) const;       // Error where there is no commit
  const std::byte* held(int slot, size_t tensor) const;  // of whatever step

  std::span<const uint64_t> held_checksums(int slot, size_t tensor) const;  // of its blocks

  // Of the slot that is being written. All of a tensor's data and checksums have to be written.
  std::byte* data(size_t tensor) const;
  uint64_t* checksums(size_t tensor) const;
  // Blocks [first, last) of a tensor: copies them from `values`, the whole tensor, and takes their checksums.
  void copy(size_t tensor, const void* values, uint64_t first, uint64_t last) const;
  void copy(size_t tensor, const void* values) const;
  void take_checksums(size_t tensor) const;  // of data that other code has written

 private:
  struct Place {
    uint64_t data, checksums, size_bytes;  // offsets in the part of a slot
  };
  void attach(std::span<const SlotTensor> tensors, const SlotIdentity& identity, uint64_t state_capacity);
  struct SlotHeader& header(int slot) const;
  std::byte* slot(int which) const;
  bool is_pinned(int slot) const;
  int next_slot() const;
  const Place& written(size_t tensor) const;

  std::span<std::byte> memory_;
  std::vector<Place> places_;
  int64_t generation_;
  int num_slots_ = 2;
  int newest_ = -1;   // the slot of the last commit; -1: none
  int before_ = -1;   // the slot of the commit before it; -1: not known
  int writing_ = -1;  // -1: none
  int64_t step_ = 0;  // of the slot that is being written
  uint64_t num_commits_ = 0;
};

}  // namespace athanor::checkpoint::format
