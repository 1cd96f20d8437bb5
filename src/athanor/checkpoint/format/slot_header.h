// The header of a slot, as it lies in memory (slots.h), and the places of a slot's parts.
//
//   const SlotPlaces places = place_slot(0, tensors, manifest.size(), state_capacity, num_slots);
//   if (header.fixed_seal == seal_of(header.fixed)) use(header.fixed.places);
//
// Two seals: `fixed` is written once, so what a slot is of can be told while it is being written or was left so.
// Thread rule: plain data; the mark and the pin are atomic.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "athanor/checkpoint/format/slots.h"

namespace athanor::checkpoint::format {

// No flipped bit makes one of another. 0: the slot has never been formatted.
enum SlotMark : uint64_t {
  kEmpty = 0x517e0e0a3c96a5d2u,
  kWriting = 0xa2c91b7d58e3640fu,
  kCommitted = 0x6d3458c2e70f9bb1u,
};

constexpr uint64_t kSlotMagic = 0x73726f6e61687461u;  // "athanors" in a dump
constexpr uint32_t kSlotVersion = 3;

struct SlotPlaces {  // offsets and sizes in bytes from the start of the slot
  uint64_t num_slots, slot_bytes, manifest, manifest_bytes, state, state_capacity, checksums, checksums_bytes,
      data, data_bytes;
  friend bool operator==(const SlotPlaces&, const SlotPlaces&) = default;
};

struct SlotHeader {
  std::atomic<uint64_t> mark;
  uint64_t fixed_seal, commit_seal;
  struct Fixed {
    uint64_t magic;
    uint32_t version;
    int32_t rank;
    int64_t size;  // of the world
    char run[kIdentityBytes + 1], layout[kIdentityBytes + 1];
    SlotPlaces places;
    uint64_t manifest_hash;
  } fixed;
  struct Commit {
    int64_t generation, step;
    uint64_t number;  // of the commit in this memory: the higher one is the newer
    uint64_t state_bytes, state_hash, checksums_hash;
  } commit;
  std::atomic<uint64_t> pinned;  // not 0: somebody reads the slot, and no writer may begin a step in it
};
constexpr uint64_t kHeaderBytes = 4096;
static_assert(std::has_unique_object_representations_v<SlotHeader::Fixed>);  // no padding under the seals
static_assert(std::has_unique_object_representations_v<SlotHeader::Commit>);
static_assert(sizeof(SlotHeader) <= kHeaderBytes && std::atomic<uint64_t>::is_always_lock_free);

uint64_t seal_of(const SlotHeader::Fixed& fixed);
uint64_t seal_of(const SlotHeader::Commit& commit);

// A tensor with its place.
struct PlacedTensor {
  SlotTensor tensor;
  uint64_t data = 0;         // its first byte, from the start of the slot's data
  uint64_t first_block = 0;  // its first checksum, from the start of the slot's checksums
};

std::vector<PlacedTensor> place_tensors(std::span<const SlotTensor> tensors);
SlotPlaces place_slot(int slot, std::span<const PlacedTensor> tensors, uint64_t manifest_bytes,
                      uint64_t state_capacity, int num_slots = 2);
// How many slots lie in the memory, as the headers that are whole say; 2 where none is.
int num_slots_in(std::span<const std::byte> memory);

std::string print_slot_manifest(std::span<const PlacedTensor> tensors);
// Error naming `slot` and the tensor where the text is no manifest, or a tensor lies outside of the slot.
std::vector<PlacedTensor> parse_slot_manifest(std::string_view text, const SlotPlaces& places,
                                              const std::string& slot);

}  // namespace athanor::checkpoint::format
