#include "athanor/store/memory_records.h"

namespace athanor::store {

Tensor view_as(const Tensor& bytes, uint64_t first_byte, const Shape& shape, Dtype dtype) {
  const auto offset =
      static_cast<uint64_t>(static_cast<std::byte*>(bytes.raw()) - bytes.storage()->data()) + first_byte;
  const uint64_t needed = static_cast<uint64_t>(shape.numel()) * size_of(dtype);
  check(first_byte + needed <= bytes.size_bytes(), "records: got {} {} at byte {} of {}, expected it within",
        name_of(dtype), shape, first_byte, bytes.size_bytes());
  return {bytes.storage(), offset, shape, dtype};
}

int MemoryRecords::add(const std::string& name, uint64_t size_bytes) {
  check(!allocated_, "records: '{}' comes after the memory was allocated", name);
  sizes_.push_back(size_bytes);
  records_.emplace_back();
  return static_cast<int>(sizes_.size()) - 1;
}

void MemoryRecords::allocate(Arena& arena, Category category) {
  for (size_t i = 0; i < sizes_.size(); ++i)
    if (!records_[i].defined())
      records_[i] = zeros(arena, {static_cast<int64_t>(sizes_[i])}, Dtype::u8, category);
  allocated_ = true;
}

void MemoryRecords::move(int record, const Tensor& memory) {
  const auto i = static_cast<size_t>(record);
  check(memory.size_bytes() == sizes_.at(i), "records: got {} bytes of memory, expected {}",
        memory.size_bytes(), sizes_[i]);
  records_[i] = view_as(memory, 0, {static_cast<int64_t>(sizes_[i])}, Dtype::u8);
}

void MemoryRecords::stream(std::span<const Item> items, Access, const Visit& visit) {
  std::vector<Tensor> bytes;
  for (size_t i = 0; i < items.size(); ++i) {
    bytes.clear();
    for (const int record : items[i]) bytes.push_back(resident(record));
    visit(i, bytes);
  }
}

}  // namespace athanor::store
