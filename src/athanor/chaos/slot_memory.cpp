#include "athanor/chaos/slot_memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "athanor/base/block_checksum.h"
#include "athanor/base/hash.h"
#include "athanor/checkpoint/format/slot_header.h"
#include "athanor/control/descriptor.h"

namespace athanor::chaos {
namespace {

namespace fs = std::filesystem;
using checkpoint::format::SlotHeader;

constexpr const char* kName = "/memfd:athanor snapshot";
constexpr uint32_t kMuch = uint32_t{1} << 22;  // the highest bit of an f32's fraction

SlotHeader& header_of(std::byte* slot) {
  return *reinterpret_cast<SlotHeader*>(slot);
}

bool is_committed(std::byte* slot) {
  const SlotHeader& header = header_of(slot);
  return header.mark.load() == checkpoint::format::kCommitted &&
         header.fixed.magic == checkpoint::format::kSlotMagic;
}

std::vector<checkpoint::format::PlacedTensor> tensors_of(std::byte* slot) {
  const auto& places = header_of(slot).fixed.places;
  return checkpoint::format::parse_slot_manifest(
      {reinterpret_cast<const char*>(slot) + places.manifest, places.manifest_bytes}, places, "slot");
}

}  // namespace

std::optional<SlotMemory> SlotMemory::of_rank(pid_t launcher, int rank) {
  std::optional<SlotMemory> found;
  uint64_t number = 0;
  std::error_code error;
  for (fs::directory_iterator entry(fmt::format("/proc/{}/fd", launcher), error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    if (!fs::read_symlink(entry->path(), gone).string().starts_with(kName)) continue;
    const control::Descriptor fd(open(entry->path().c_str(), O_RDWR | O_CLOEXEC));
    struct stat status {};
    if (fd.get() < 0 || fstat(fd.get(), &status) != 0) continue;
    const auto size_bytes = static_cast<size_t>(status.st_size);
    if (size_bytes < 2 * checkpoint::format::kHeaderBytes) continue;
    void* mapped = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (mapped == MAP_FAILED) continue;
    SlotMemory memory({static_cast<std::byte*>(mapped), [=](std::byte* all) { munmap(all, size_bytes); }},
                      size_bytes);
    const auto newest = memory.newest();
    if (!newest || header_of(memory.slot(newest->slot)).fixed.rank != rank) continue;
    if (found && newest->number <= number) continue;
    number = newest->number;
    found = std::move(memory);
  }
  return found;
}

std::optional<SlotMemory::Newest> SlotMemory::newest() const {
  std::optional<Newest> newest;
  for (int which = 0; which < num_slots(); ++which) {
    if (!is_committed(slot(which))) continue;
    const uint64_t number = header_of(slot(which)).commit.number;
    if (!newest || number > newest->number) newest = Newest{which, number};
  }
  return newest;
}

bool SlotMemory::is_being_written() const {
  int committed = 0;
  for (int which = 0; which < num_slots(); ++which) {
    if (header_of(slot(which)).mark.load() == checkpoint::format::kWriting) return true;
    committed += is_committed(slot(which)) ? 1 : 0;
  }
  return committed < 2;
}

void SlotMemory::flip(double where) {
  const auto newest = this->newest();
  if (!newest) return;
  std::byte* const from = slot(newest->slot);
  const auto tensors = tensors_of(from);
  uint64_t total = 0;
  for (const auto& held : tensors) total += held.tensor.size_bytes();
  auto bit = static_cast<uint64_t>(where * static_cast<double>(8 * total));
  for (const auto& held : tensors) {
    const uint64_t bits = 8 * held.tensor.size_bytes();
    if (bit >= bits) {
      bit -= bits;
      continue;
    }
    from[header_of(from).fixed.places.data + held.data + bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    return;
  }
}

// All, since the ranks may go on from an older one: it is the newest that all of them have.
void SlotMemory::falsify() {
  for (int which = 0; which < num_slots(); ++which)
    if (is_committed(slot(which))) falsify(slot(which));
}

void SlotMemory::falsify(std::byte* from) {
  SlotHeader& header = header_of(from);
  const auto& places = header.fixed.places;
  for (const auto& held : tensors_of(from)) {
    const uint64_t size_bytes = held.tensor.size_bytes();
    std::byte* const data = from + places.data + held.data;
    auto* const words = reinterpret_cast<uint32_t*>(data);
    uint64_t at = 0;
    while (at + 1 < size_bytes / sizeof(uint32_t) && words[at] == 0) ++at;
    if (at < size_bytes / sizeof(uint32_t)) words[at] ^= kMuch;
    for (uint64_t block = 0; block < num_checksum_blocks(size_bytes); ++block) {
      const uint64_t begin = block * kChecksumBlockBytes;
      const uint64_t sum =
          block_checksum(data + begin, std::min(kChecksumBlockBytes, size_bytes - begin), block);
      std::memcpy(from + places.checksums + (held.first_block + block) * sizeof(sum), &sum, sizeof(sum));
    }
  }
  header.commit.checksums_hash = hash64(
      std::string_view(reinterpret_cast<const char*>(from) + places.checksums, places.checksums_bytes));
  header.commit_seal = checkpoint::format::seal_of(header.commit);
}

}  // namespace athanor::chaos
