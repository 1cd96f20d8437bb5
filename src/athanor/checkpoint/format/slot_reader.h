// Reads a snapshot's slots (slots.h), from whatever process and layout: of a rank that died, or of another layout.
//
//   const ExpectedSlot expected{.run = run, .generation = 3};
//   std::vector<SlotFinding> findings;                                    // of all slots, with reasons
//   if (const auto slot = SlotReader::newest(memory, expected, &findings))
//     for (const PlacedTensor& held : slot->tensors())
//       slot->read_box(held.tensor.name, held.tensor.dtype, held.tensor.shape, box, values);
//
// Each rank's slots hold its own boxes. Whoever wants a box of a logical tensor asks all of them, and has it once the
// elements that they gave add up to it (ranks may hold the same ones: then a box counts again). Nothing in the memory is
// trusted: every byte that is used was verified by examine_slot().
// Errors: Error naming slot and tensor for a tensor that is not there or whose type or shape is another. Thread rule: const
// after construction, any thread. A writer that lives may overwrite what is read: ask unchanged() after the last read.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "athanor/checkpoint/format/slot_header.h"

namespace athanor::checkpoint::format {

enum class SlotState {
  whole,    // committed, and every checksum is right
  empty,    // nothing was ever committed
  torn,     // the writer was between begin() and commit()
  stale,    // whole once, of an older generation than expected; its data were not verified
  foreign,  // of another run, layout, rank or format, or not a slot at all
  flipped,  // a checksum is wrong
};
const char* name_of(SlotState state);

// What a slot has to be of. Left open: any.
struct ExpectedSlot {
  std::string run = {}, layout = {};
  std::optional<int> rank = {};
  int64_t generation = 0;  // at least
};

struct SlotFinding {
  SlotState state = SlotState::empty;
  std::string reason =
      {};  // empty for a whole slot: "tensor 'adam.m.w': block 3: got checksum ..., expected ..."
  int64_t generation = 0, step = 0;  // of a whole or stale slot
  uint64_t number = 0;               // of its commit in this memory
};

// Reads all of the slot.
SlotFinding examine_slot(std::span<const std::byte> memory, int slot, const ExpectedSlot& expected);

// The slot that is pinned (slots.h); none where none is. Reads the headers alone.
std::optional<int> pinned_slot(std::span<const std::byte> memory);

class SlotReader {
 public:
  // Those of the slots that are whole, the one that was committed last first.
  static std::vector<SlotReader> whole(std::span<const std::byte> memory, const ExpectedSlot& expected,
                                       std::vector<SlotFinding>* findings = nullptr);
  // A slot that the caller knows to be whole, without reading its data.
  static SlotReader trusted(std::span<const std::byte> memory, int slot) { return SlotReader(memory, slot); }
  // The first of them; none where none is whole.
  static std::optional<SlotReader> newest(std::span<const std::byte> memory, const ExpectedSlot& expected,
                                          std::vector<SlotFinding>* findings = nullptr);

  int slot() const { return slot_; }
  int64_t generation() const { return commit_.generation; }
  int64_t step() const { return commit_.step; }
  SlotIdentity identity() const;
  std::string state() const;  // TrainState as JSON
  const std::vector<PlacedTensor>& tensors() const { return tensors_; }

  const std::byte* data(const PlacedTensor& held) const;
  // Copies what the slot holds of a box of the logical tensor `name` into `values`, the dense box, in the tensor's type.
  // Returns how many elements that were; 0 where the slot has no part of it.
  int64_t read_box(const std::string& name, Dtype dtype, const Shape& shape, const Box& box,
                   void* values) const;
  bool unchanged() const;  // the slot still holds the commit that was examined

 private:
  SlotReader(std::span<const std::byte> memory, int slot);

  std::span<const std::byte> bytes_;  // of the slot
  int slot_;
  SlotHeader::Fixed fixed_;
  SlotHeader::Commit commit_;
  std::vector<PlacedTensor> tensors_;
};

}  // namespace athanor::checkpoint::format
