#include "athanor/checkpoint/format/slots.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "athanor/base/block_checksum.h"
#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/checkpoint/format/slot_header.h"
#include "athanor/checkpoint/format/slot_reader.h"

namespace athanor::checkpoint::format {
namespace {

void put_text(char (&to)[kIdentityBytes + 1], const std::string& text, const char* what) {
  check(!text.empty() && text.size() <= kIdentityBytes && text.find('\0') == std::string::npos,
        "snapshot: {}: got '{}', expected a text of 1 to {} bytes", what, text, kIdentityBytes);
  std::copy(text.begin(), text.end(), to);
}

SlotHeader::Fixed fixed_part(const SlotIdentity& identity, const SlotPlaces& places,
                             const std::string& manifest) {
  SlotHeader::Fixed fixed{};
  fixed.magic = kSlotMagic;
  fixed.version = kSlotVersion;
  fixed.rank = identity.rank;
  fixed.size = identity.size;
  put_text(fixed.run, identity.run, "run");
  put_text(fixed.layout, identity.layout, "layout");
  fixed.places = places;
  fixed.manifest_hash = hash64(manifest);
  return fixed;
}

// The mark comes last: a slot without one is formatted again.
void format_slot(SlotHeader& header, const SlotHeader::Fixed& fixed, const std::string& manifest,
                 std::byte* slot) {
  std::memcpy(slot + fixed.places.manifest, manifest.data(), manifest.size());
  header.fixed = fixed;
  header.fixed_seal = seal_of(fixed);
  header.mark.store(kEmpty, std::memory_order_release);
}

}  // namespace

uint64_t snapshot_bytes(std::span<const SlotTensor> tensors, uint64_t state_capacity, int num_slots) {
  check(num_slots >= 2 && num_slots <= kMostSlots, "snapshot: got {} slots, expected 2 to {}", num_slots,
        kMostSlots);
  const std::vector<PlacedTensor> placed = place_tensors(tensors);
  const auto places = place_slot(0, placed, print_slot_manifest(placed).size(), state_capacity, num_slots);
  return places.num_slots * places.slot_bytes;
}

// Whatever number of slots it had.
void erase_slots(std::span<std::byte> memory) {
  for (size_t count = 2; count <= kMostSlots; ++count)
    for (size_t slot = 0; slot < count && memory.size() % count == 0; ++slot)
      std::memset(memory.data() + slot * (memory.size() / count), 0, kHeaderBytes);
}

void release_pins(std::span<std::byte> memory) {
  const auto count = static_cast<size_t>(num_slots_in(memory));
  for (size_t slot = 0; slot < count; ++slot)
    reinterpret_cast<SlotHeader*>(memory.data() + slot * (memory.size() / count))
        ->pinned.store(0, std::memory_order_release);
}

SlotWriter::SlotWriter(std::span<std::byte> memory, std::span<const SlotTensor> tensors,
                       const SlotIdentity& identity, uint64_t state_capacity)
    : memory_(memory), generation_(identity.generation) {
  attach(tensors, identity, state_capacity);
  const auto newest = SlotReader::newest(memory, {});
  if (!newest) return;
  check(newest->generation() <= generation_,
        "snapshot: the memory holds step {} of generation {}, expected at most generation {}", newest->step(),
        newest->generation(), generation_);
  newest_ = newest->slot();
  num_commits_ = header(newest_).commit.number;
}

SlotWriter::SlotWriter(std::span<std::byte> memory, std::span<const SlotTensor> tensors,
                       const SlotIdentity& identity, uint64_t state_capacity, int whole)
    : memory_(memory), generation_(identity.generation) {
  attach(tensors, identity, state_capacity);
  check(header(whole).mark.load() == kCommitted, "snapshot: slot {}: nothing was committed", whole);
  newest_ = whole;
  for (int slot = 0; slot < num_slots_; ++slot)
    if (header(slot).mark.load() == kCommitted)
      num_commits_ = std::max(num_commits_, header(slot).commit.number);
}

void SlotWriter::attach(std::span<const SlotTensor> tensors, const SlotIdentity& identity,
                        uint64_t state_capacity) {
  const std::vector<PlacedTensor> placed = place_tensors(tensors);
  const std::string manifest = print_slot_manifest(placed);
  const auto fixed_of = [&](int which) {
    return fixed_part(identity, place_slot(which, placed, manifest.size(), state_capacity, num_slots_),
                      manifest);
  };
  const auto size_bytes = [&] { return fixed_of(0).places.num_slots * fixed_of(0).places.slot_bytes; };
  const uint64_t of_two = size_bytes();
  while (memory_.size() != size_bytes())
    check(++num_slots_ <= kMostSlots, "snapshot: got {} bytes of memory, expected {}", memory_.size(),
          of_two);
  for (int which = 0; which < num_slots_; ++which) {
    const SlotHeader::Fixed fixed = fixed_of(which);
    SlotHeader& found = header(which);
    check(found.mark.load() == 0 || (found.fixed_seal == seal_of(found.fixed) &&
                                     std::memcmp(&found.fixed, &fixed, sizeof(fixed)) == 0),
          "snapshot: slot {}: the memory holds a slot of another run, layout, rank or list of tensors, "
          "expected run '{}', layout '{}', rank {}",
          which, identity.run, identity.layout, identity.rank);
  }
  for (int which = 0; which < num_slots_; ++which)
    if (header(which).mark.load() == 0) format_slot(header(which), fixed_of(which), manifest, slot(which));
  for (const PlacedTensor& x : placed)
    places_.push_back({x.data, x.first_block * sizeof(uint64_t), x.tensor.size_bytes()});
}

std::byte* SlotWriter::slot(int which) const {
  return memory_.data() + static_cast<size_t>(which) * (memory_.size() / static_cast<size_t>(num_slots_));
}

SlotHeader& SlotWriter::header(int which) const {
  return *reinterpret_cast<SlotHeader*>(slot(which));
}

const SlotWriter::Place& SlotWriter::written(size_t tensor) const {
  check(writing_ >= 0, "snapshot: got data outside of a step, expected begin() first");
  return places_.at(tensor);
}

bool SlotWriter::is_pinned(int which) const {
  return header(which).pinned.load(std::memory_order_acquire) != 0;
}

// Memory that no step was written to yet is taken last: until something is pinned a third slot costs none.
int SlotWriter::next_slot() const {
  if (before_ >= 0 && before_ != newest_ && !is_pinned(before_)) return before_;
  for (int which = 0; which < num_slots_; ++which)
    if (which != newest_ && !is_pinned(which)) return which;
  fail("snapshot: all slots but that of the newest step are pinned");
}

bool SlotWriter::pin() {
  check(newest_ >= 0 && writing_ < 0, "snapshot: got a pin, expected it after a commit");
  if (num_slots_ < 3) return false;
  for (int which = 0; which < num_slots_; ++which)
    if (is_pinned(which)) return false;
  header(newest_).pinned.store(1, std::memory_order_release);
  return true;
}

std::optional<int64_t> SlotWriter::pinned_step() const {
  for (int which = 0; which < num_slots_; ++which)
    if (is_pinned(which)) return header(which).commit.step;
  return std::nullopt;
}

void SlotWriter::unpin() {
  if (newest_ >= 0) header(newest_).pinned.store(0, std::memory_order_release);
}

int SlotWriter::begin(int64_t step) {
  writing_ = writing_ >= 0 && !is_pinned(writing_) ? writing_ : next_slot();
  step_ = step;
  // A full barrier: no byte of the step, not even one that is streamed past the caches, comes before the mark.
  header(writing_).mark.exchange(kWriting);
  return writing_;
}

void SlotWriter::commit(std::string_view state) {
  check(writing_ >= 0, "snapshot: got a commit, expected begin() first");
  SlotHeader& open = header(writing_);
  const SlotPlaces& places = open.fixed.places;
  check(state.size() <= places.state_capacity, "snapshot: got a state of {} bytes, expected at most {}",
        state.size(), places.state_capacity);
  std::byte* start = slot(writing_);
  std::memcpy(start + places.state, state.data(), state.size());
  open.commit = {.generation = generation_,
                 .step = step_,
                 .number = num_commits_ + 1,
                 .state_bytes = state.size(),
                 .state_hash = hash64(state),
                 .checksums_hash = hash64(start + places.checksums, places.checksums_bytes)};
  open.commit_seal = seal_of(open.commit);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // streamed stores are outside of release order
  open.mark.store(kCommitted, std::memory_order_release);
  before_ = newest_;
  newest_ = std::exchange(writing_, -1);
  ++num_commits_;
}

int64_t SlotWriter::generation(int which) const {
  return header(which).commit.generation;
}

std::optional<int64_t> SlotWriter::committed_step() const {
  if (newest_ < 0) return std::nullopt;
  return header(newest_).commit.step;
}

const std::byte* SlotWriter::held(int which, size_t tensor) const {
  return slot(which) + header(which).fixed.places.data + places_.at(tensor).data;
}

std::span<const uint64_t> SlotWriter::held_checksums(int which, size_t tensor) const {
  const Place& place = places_.at(tensor);
  const std::byte* all = slot(which) + header(which).fixed.places.checksums;
  return {reinterpret_cast<const uint64_t*>(all + place.checksums), num_checksum_blocks(place.size_bytes)};
}

const std::byte* SlotWriter::committed(size_t tensor) const {
  check(newest_ >= 0, "snapshot: got a read of the last commit, expected a commit first");
  return held(newest_, tensor);
}

std::byte* SlotWriter::data(size_t tensor) const {
  const uint64_t offset = written(tensor).data;
  return slot(writing_) + header(writing_).fixed.places.data + offset;
}

uint64_t* SlotWriter::checksums(size_t tensor) const {
  const uint64_t offset = written(tensor).checksums;
  return reinterpret_cast<uint64_t*>(slot(writing_) + header(writing_).fixed.places.checksums + offset);
}

void SlotWriter::copy(size_t tensor, const void* values, uint64_t first, uint64_t last) const {
  const uint64_t size_bytes = written(tensor).size_bytes;
  std::byte* to = data(tensor);
  for (uint64_t block = first; block < last; ++block) {
    const uint64_t begin = block * kChecksumBlockBytes;
    const size_t piece = std::min(kChecksumBlockBytes, size_bytes - begin);
    std::memcpy(to + begin, static_cast<const std::byte*>(values) + begin, piece);
    checksums(tensor)[block] = block_checksum(to + begin, piece, block);
  }
}

void SlotWriter::copy(size_t tensor, const void* values) const {
  copy(tensor, values, 0, num_checksum_blocks(written(tensor).size_bytes));
}

void SlotWriter::take_checksums(size_t tensor) const {
  const uint64_t size_bytes = written(tensor).size_bytes;
  for (uint64_t block = 0; block < num_checksum_blocks(size_bytes); ++block) {
    const uint64_t begin = block * kChecksumBlockBytes;
    checksums(tensor)[block] =
        block_checksum(data(tensor) + begin, std::min(kChecksumBlockBytes, size_bytes - begin), block);
  }
}

}  // namespace athanor::checkpoint::format
