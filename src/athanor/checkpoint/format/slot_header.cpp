#include "athanor/checkpoint/format/slot_header.h"

#include <nlohmann/json.hpp>

#include "athanor/base/block_checksum.h"
#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/base/shared_memory.h"
#include "athanor/store/json.h"

namespace athanor::checkpoint::format {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kTensorAlignment = 64, kPage = 4096;
// A tensor begins this much further into a page than the one before, and the data of each slot at another place of it.
// Streams to and from addresses that agree in their last bits hold each other up: with them an update takes 1.4 times as long.
constexpr uint64_t kStagger = 704, kSlotStagger[kMostSlots] = {0, 3 * kStagger, 1088};

uint64_t round_up(uint64_t size_bytes, uint64_t unit) {
  return (size_bytes + unit - 1) / unit * unit;
}

Json lengths_of(const Shape& shape) {
  Json json = Json::array();
  for (int d = 0; d < shape.dims(); ++d) json.push_back(shape[d]);
  return json;
}

Shape shape_of(const Json& json) {
  Shape shape;
  for (const Json& length : json) shape.push_back(length.get<int64_t>());
  return shape;
}

// Why a tensor of a slot's list cannot be one; empty if it can.
std::string fault_of(const SlotTensor& tensor) {
  if (tensor.name.empty()) return "got no name, expected one";
  if (tensor.padding < 0) return fmt::format("got a padding of {} elements", tensor.padding);
  for (size_t i = 0; i < tensor.boxes.size(); ++i) {
    if (!is_inside(tensor.boxes[i], tensor.shape))
      return fmt::format("the box at {} of {} lies outside of {}", tensor.boxes[i].offset,
                         tensor.boxes[i].extent, tensor.shape);
    for (size_t j = 0; j < i; ++j)
      if (overlap(tensor.boxes[i], tensor.boxes[j])) return "its boxes overlap";
  }
  return "";
}

PlacedTensor placed(const Json& json) {
  PlacedTensor placed;
  SlotTensor& tensor = placed.tensor;
  tensor.name = json.at("name").get<std::string>();
  tensor.dtype = parse_dtype(json.at("dtype").get<std::string>());
  tensor.shape = shape_of(json.at("shape"));
  tensor.padding = json.at("padding").get<int64_t>();
  for (const Json& box : json.at("boxes"))
    tensor.boxes.push_back({shape_of(box.at("offset")), shape_of(box.at("extent"))});
  placed.data = json.at("data").get<uint64_t>();
  placed.first_block = json.at("first_block").get<uint64_t>();
  return placed;
}

}  // namespace

int64_t SlotTensor::numel() const {
  int64_t count = padding;
  for (const Box& box : boxes) count += box.extent.numel();
  return count;
}

uint64_t seal_of(const SlotHeader::Fixed& fixed) {
  return hash64(&fixed, sizeof(fixed));
}
uint64_t seal_of(const SlotHeader::Commit& commit) {
  return hash64(&commit, sizeof(commit));
}

int num_slots_in(std::span<const std::byte> memory) {
  for (uint64_t count = kMostSlots; count >= 2; --count) {
    const uint64_t slot_bytes = memory.size() / count;
    if (memory.size() % count != 0 || slot_bytes % kPage != 0) continue;
    for (uint64_t slot = 0; slot < count; ++slot) {
      const auto& header = *reinterpret_cast<const SlotHeader*>(memory.data() + slot * slot_bytes);
      const SlotHeader::Fixed fixed = header.fixed;
      if (fixed.magic == kSlotMagic && fixed.places.num_slots == count && header.fixed_seal == seal_of(fixed))
        return static_cast<int>(count);
    }
  }
  return 2;
}

std::vector<PlacedTensor> place_tensors(std::span<const SlotTensor> tensors) {
  std::vector<PlacedTensor> all;
  uint64_t data = 0, blocks = 0;
  for (const SlotTensor& tensor : tensors) {
    const std::string fault = fault_of(tensor);
    check(fault.empty(), "snapshot: tensor '{}': {}", tensor.name, fault);
    data = round_up(data, kPage) + all.size() * kStagger % kPage;
    all.push_back({tensor, data, blocks});
    data += tensor.size_bytes();
    blocks += num_checksum_blocks(tensor.size_bytes());
  }
  return all;
}

SlotPlaces place_slot(int slot, std::span<const PlacedTensor> tensors, uint64_t manifest_bytes,
                      uint64_t state_capacity, int num_slots) {
  SlotPlaces places{};
  places.num_slots = static_cast<uint64_t>(num_slots);
  if (!tensors.empty()) {
    const PlacedTensor& last = tensors.back();
    places.data_bytes = last.data + last.tensor.size_bytes();
    places.checksums_bytes =
        (last.first_block + num_checksum_blocks(last.tensor.size_bytes())) * sizeof(uint64_t);
  }
  places.manifest = kHeaderBytes;
  places.manifest_bytes = manifest_bytes;
  places.state = round_up(places.manifest + manifest_bytes, kTensorAlignment);
  places.state_capacity = state_capacity;
  places.checksums = round_up(places.state + state_capacity, kTensorAlignment);
  places.data = round_up(places.checksums + places.checksums_bytes, kPage);
  const uint64_t slot_bytes = places.data + kSlotStagger[1] + places.data_bytes;
  places.slot_bytes =
      num_slots == 2 ? whole_shared_units(2 * slot_bytes) / 2 : whole_shared_units(slot_bytes);
  places.data += kSlotStagger[slot];
  return places;
}

std::string print_slot_manifest(std::span<const PlacedTensor> tensors) {
  Json list = Json::array();
  for (const PlacedTensor& placed : tensors) {
    Json boxes = Json::array();
    for (const Box& box : placed.tensor.boxes)
      boxes.push_back({{"offset", lengths_of(box.offset)}, {"extent", lengths_of(box.extent)}});
    list.push_back({{"name", placed.tensor.name},
                    {"dtype", name_of(placed.tensor.dtype)},
                    {"shape", lengths_of(placed.tensor.shape)},
                    {"boxes", boxes},
                    {"padding", placed.tensor.padding},
                    {"data", placed.data},
                    {"first_block", placed.first_block}});
  }
  return list.dump();
}

std::vector<PlacedTensor> parse_slot_manifest(std::string_view text, const SlotPlaces& places,
                                              const std::string& slot) {
  const Json list = parse_json(text, slot);
  std::vector<PlacedTensor> all;
  try {
    for (const Json& item : list) all.push_back(placed(item));
  } catch (const Json::exception& error) {
    fail("'{}': manifest: {}", slot, json_reason(error));
  }
  for (const PlacedTensor& placed : all) {
    const SlotTensor& tensor = placed.tensor;
    const std::string fault = fault_of(tensor);
    check(fault.empty(), "'{}': tensor '{}': {}", slot, tensor.name, fault);
    const uint64_t size_bytes = tensor.size_bytes(), blocks = num_checksum_blocks(size_bytes),
                   most_blocks = places.checksums_bytes / sizeof(uint64_t);
    check(placed.data <= places.data_bytes && size_bytes <= places.data_bytes - placed.data &&
              placed.first_block <= most_blocks && blocks <= most_blocks - placed.first_block,
          "'{}': tensor '{}': its {} bytes at {} lie outside of the slot's {}", slot, tensor.name, size_bytes,
          placed.data, places.data_bytes);
  }
  return all;
}

}  // namespace athanor::checkpoint::format
