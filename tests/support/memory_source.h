// Bytes in memory, not copied, as a ByteSource.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

#include "athanor/documents/byte_source.h"

namespace athanor::tests {

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  size_t read(char* out, size_t max_bytes) override {
    const size_t size_bytes = std::min(max_bytes, bytes_.size() - offset_);
    if (size_bytes > 0) std::memcpy(out, bytes_.data() + offset_, size_bytes);
    offset_ += size_bytes;
    return size_bytes;
  }
  uint64_t raw_bytes() const override { return offset_; }

 private:
  std::string_view bytes_;
  size_t offset_ = 0;
};

}  // namespace athanor::tests
