#include "athanor/checkpoint/format/slot_reader.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "athanor/base/block_checksum.h"
#include "athanor/base/check.h"
#include "athanor/base/hash.h"

namespace athanor::checkpoint::format {
namespace {

// A slot as it lies in memory: header parts are copied before they are judged.
struct Seen {
  explicit Seen(std::span<const std::byte> slot) : bytes(slot) {
    const auto& header = *reinterpret_cast<const SlotHeader*>(slot.data());
    mark = header.mark.load(std::memory_order_acquire);
    fixed_seal = header.fixed_seal;
    commit_seal = header.commit_seal;
    fixed = header.fixed;
    commit = header.commit;
  }
  std::string_view text(uint64_t offset, uint64_t size_bytes) const {
    return {reinterpret_cast<const char*>(bytes.data()) + offset, size_bytes};
  }
  std::string_view manifest() const { return text(fixed.places.manifest, fixed.places.manifest_bytes); }
  std::string_view state() const { return text(fixed.places.state, commit.state_bytes); }
  uint64_t checksum(uint64_t index) const {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + fixed.places.checksums + index * sizeof(value), sizeof(value));
    return value;
  }

  std::span<const std::byte> bytes;
  uint64_t mark, fixed_seal, commit_seal;
  SlotHeader::Fixed fixed;
  SlotHeader::Commit commit;
};

std::span<const std::byte> slot_of(std::span<const std::byte> memory, int slot) {
  check(memory.size() >= 2 * kHeaderBytes, "snapshot: got {} bytes of memory, expected two slots",
        memory.size());
  const int count = num_slots_in(memory);
  check(slot >= 0 && slot < count, "snapshot: got slot {}, expected 0 to {}", slot, count - 1);
  const size_t slot_bytes = memory.size() / static_cast<size_t>(count);
  return memory.subspan(static_cast<size_t>(slot) * slot_bytes, slot_bytes);
}

std::string hex_fault(const std::string& what, uint64_t got, uint64_t expected) {
  return fmt::format("{}: got checksum {:016x}, expected {:016x}", what, got, expected);
}

// Whether the parts lie in the slot and in order.
bool fits(const SlotPlaces& p, uint64_t slot_bytes) {
  const auto ends = [&](uint64_t first, uint64_t size_bytes, uint64_t end) {
    return first <= end && size_bytes <= end - first;
  };
  return p.slot_bytes == slot_bytes && p.manifest >= kHeaderBytes &&
         ends(p.manifest, p.manifest_bytes, p.state) && ends(p.state, p.state_capacity, p.checksums) &&
         ends(p.checksums, p.checksums_bytes, p.data) && ends(p.data, p.data_bytes, slot_bytes);
}

std::string fault_of_identity(const SlotHeader::Fixed& fixed, const ExpectedSlot& expected) {
  if (fixed.version != kSlotVersion)
    return fmt::format("of format version {}, expected {}", fixed.version, kSlotVersion);
  if (!expected.run.empty() && expected.run != fixed.run)
    return fmt::format("of run '{}', expected '{}'", fixed.run, expected.run);
  if (!expected.layout.empty() && expected.layout != fixed.layout)
    return fmt::format("of layout '{}', expected '{}'", fixed.layout, expected.layout);
  if (expected.rank && *expected.rank != fixed.rank)
    return fmt::format("of rank {}, expected {}", fixed.rank, *expected.rank);
  return "";
}

// The first block of the data whose checksum is wrong; empty if there is none.
std::string fault_of_data(const Seen& seen, const std::vector<PlacedTensor>& tensors) {
  for (const PlacedTensor& held : tensors) {
    const uint64_t size_bytes = held.tensor.size_bytes();
    const std::byte* data = seen.bytes.data() + seen.fixed.places.data + held.data;
    for (uint64_t block = 0; block < num_checksum_blocks(size_bytes); ++block) {
      const uint64_t begin = block * kChecksumBlockBytes;
      const uint64_t got =
          block_checksum(data + begin, std::min(kChecksumBlockBytes, size_bytes - begin), block);
      if (const uint64_t expected = seen.checksum(held.first_block + block); got != expected)
        return hex_fault(fmt::format("tensor '{}': block {}", held.tensor.name, block), got, expected);
    }
  }
  return "";
}

// Of a committed slot.
std::string fault_of_contents(const Seen& seen, const std::string& what) {
  const SlotPlaces& places = seen.fixed.places;
  if (const uint64_t got = hash64(seen.manifest()); got != seen.fixed.manifest_hash)
    return hex_fault("manifest", got, seen.fixed.manifest_hash);
  if (const uint64_t got = hash64(seen.state()); got != seen.commit.state_hash)
    return hex_fault("state", got, seen.commit.state_hash);
  if (const uint64_t got = hash64(seen.text(places.checksums, places.checksums_bytes));
      got != seen.commit.checksums_hash)
    return hex_fault("block checksums", got, seen.commit.checksums_hash);
  return fault_of_data(seen, parse_slot_manifest(seen.manifest(), places, what));
}

}  // namespace

const char* name_of(SlotState state) {
  constexpr const char* kNames[] = {"whole", "empty", "torn", "stale", "foreign", "flipped"};
  return kNames[static_cast<size_t>(state)];
}

SlotFinding examine_slot(std::span<const std::byte> memory, int slot, const ExpectedSlot& expected) {
  const std::string what = fmt::format("slot {}", slot);
  const auto found = [&](SlotState state, const std::string& reason) {
    return SlotFinding{state, what + ": " + reason};
  };
  const Seen seen(slot_of(memory, slot));
  if (seen.mark == 0 && seen.fixed.magic == 0) return found(SlotState::empty, "never formatted");
  if (seen.fixed.magic != kSlotMagic) return found(SlotState::foreign, "not a slot of a snapshot");
  if (const uint64_t got = seal_of(seen.fixed); got != seen.fixed_seal)
    return found(SlotState::flipped, hex_fault("header", got, seen.fixed_seal));
  if (const std::string fault = fault_of_identity(seen.fixed, expected); !fault.empty())
    return found(SlotState::foreign, fault);
  if (!fits(seen.fixed.places, seen.bytes.size()))
    return found(SlotState::foreign,
                 fmt::format("of {} bytes, expected {}", seen.fixed.places.slot_bytes, seen.bytes.size()));
  if (seen.mark == kEmpty) return found(SlotState::empty, "nothing was committed");
  if (seen.mark == kWriting) return found(SlotState::torn, "a step was begun and not committed");
  if (seen.mark != kCommitted)
    return found(SlotState::flipped, fmt::format("header: got the mark {:016x}", seen.mark));
  if (const uint64_t got = seal_of(seen.commit);
      got != seen.commit_seal || seen.commit.state_bytes > seen.fixed.places.state_capacity)
    return found(SlotState::flipped, hex_fault("header of the commit", got, seen.commit_seal));
  if (seen.commit.generation < expected.generation)
    return {SlotState::stale,
            fmt::format("{}: of generation {}, expected at least {}", what, seen.commit.generation,
                        expected.generation),
            seen.commit.generation, seen.commit.step, seen.commit.number};
  if (const std::string fault = fault_of_contents(seen, what); !fault.empty())
    return found(SlotState::flipped, fault);
  return {SlotState::whole, "", seen.commit.generation, seen.commit.step, seen.commit.number};
}

std::optional<int> pinned_slot(std::span<const std::byte> memory) {
  for (int slot = 0; slot < num_slots_in(memory); ++slot)
    if (reinterpret_cast<const SlotHeader*>(slot_of(memory, slot).data())
            ->pinned.load(std::memory_order_acquire) != 0)
      return slot;
  return std::nullopt;
}

SlotReader::SlotReader(std::span<const std::byte> memory, int slot)
    : bytes_(slot_of(memory, slot)), slot_(slot) {
  const Seen seen(bytes_);
  fixed_ = seen.fixed;
  commit_ = seen.commit;
  tensors_ = parse_slot_manifest(seen.manifest(), fixed_.places, fmt::format("slot {}", slot));
}

std::vector<SlotReader> SlotReader::whole(std::span<const std::byte> memory, const ExpectedSlot& expected,
                                          std::vector<SlotFinding>* findings) {
  std::vector<SlotFinding> all;
  for (int slot = 0; slot < num_slots_in(memory); ++slot) all.push_back(examine_slot(memory, slot, expected));
  if (findings != nullptr) *findings = all;
  std::vector<int> order;
  for (int slot = 0; slot < std::ssize(all); ++slot)
    if (all[static_cast<size_t>(slot)].state == SlotState::whole) order.push_back(slot);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return all[static_cast<size_t>(a)].number > all[static_cast<size_t>(b)].number;
  });
  std::vector<SlotReader> readers;
  for (const int slot : order) readers.push_back(SlotReader(memory, slot));
  return readers;
}

std::optional<SlotReader> SlotReader::newest(std::span<const std::byte> memory, const ExpectedSlot& expected,
                                             std::vector<SlotFinding>* findings) {
  std::vector<SlotReader> readers = whole(memory, expected, findings);
  if (readers.empty()) return std::nullopt;
  return std::move(readers.front());
}

SlotIdentity SlotReader::identity() const {
  return {.run = fixed_.run,
          .layout = fixed_.layout,
          .rank = fixed_.rank,
          .size = static_cast<int>(fixed_.size),
          .generation = commit_.generation};
}

std::string SlotReader::state() const {
  return {reinterpret_cast<const char*>(bytes_.data()) + fixed_.places.state, commit_.state_bytes};
}

const std::byte* SlotReader::data(const PlacedTensor& held) const {
  return bytes_.data() + fixed_.places.data + held.data;
}

int64_t SlotReader::read_box(const std::string& name, Dtype dtype, const Shape& shape, const Box& box,
                             void* values) const {
  const BoxRuns wanted(shape, box);
  const auto element = static_cast<int64_t>(size_of(dtype));
  int64_t copied = 0;
  for (const PlacedTensor& held : tensors_) {
    const SlotTensor& tensor = held.tensor;
    if (tensor.name != name) continue;
    check(tensor.dtype == dtype && tensor.shape == shape,
          "snapshot: slot {}: tensor '{}': got {} {}, expected {} {}", slot_, name, name_of(tensor.dtype),
          tensor.shape, name_of(dtype), shape);
    const std::byte* from = data(held);
    for (const Box& part : tensor.boxes) {
      const int64_t count = part.extent.numel();
      BoxRuns(shape, part).walk(0, count, [&](int64_t in_part, int64_t in_whole, int64_t length) {
        wanted.clip(in_whole, length, [&](int64_t in_box, int64_t in_run, int64_t shared) {
          std::memcpy(static_cast<std::byte*>(values) + in_box * element, from + (in_part + in_run) * element,
                      static_cast<size_t>(shared * element));
          copied += shared;
        });
      });
      from += count * element;
    }
  }
  return copied;
}

bool SlotReader::unchanged() const {
  std::atomic_thread_fence(std::memory_order_acquire);
  const Seen now(bytes_);
  return now.mark == kCommitted && std::memcmp(&now.commit, &commit_, sizeof(commit_)) == 0;
}

}  // namespace athanor::checkpoint::format
