// Records (records.h) in the memory of an arena: without offload.
//
//   MemoryRecords records;
//   const int m = records.add("adam.m of 'head'", 16384);
//   records.allocate(arena, Category::optimizer);
//   Tensor bytes = records.resident(m);             // u8 [16384]
//   records.move(m, other);                         // from now on it lies in memory of the caller
//
// Thread rule: as Records.
#pragma once

#include "athanor/store/records.h"

namespace athanor::store {

class MemoryRecords final : public Records {
 public:
  int add(const std::string& name, uint64_t size_bytes) override;
  void allocate(Arena& arena, Category category) override;  // those that move() has not given memory
  void move(int record, const Tensor& memory);              // dense, of the record's size
  void stream(std::span<const Item> items, Access access, const Visit& visit) override;
  Tensor resident(int record) const override { return records_.at(static_cast<size_t>(record)); }

 private:
  std::vector<uint64_t> sizes_;
  std::vector<Tensor> records_;
  bool allocated_ = false;
};

}  // namespace athanor::store
