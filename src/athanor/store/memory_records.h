// Records (records.h) in the memory of an arena.
#pragma once

#include "athanor/store/records.h"

namespace athanor {

class MemoryRecords final : public Records {
 public:
  int add(const std::string& name, uint64_t size_bytes) override;
  void allocate(Arena& arena, Category category) override;
  void stream(std::span<const Item> items, Access access, const Visit& visit) override;
  Tensor resident(int record) const override { return records_.at(static_cast<size_t>(record)); }

 private:
  std::vector<uint64_t> sizes_;
  std::vector<Tensor> records_;
};

}  // namespace athanor
