// The input of a decompressor: the bytes of a source, a chunk at a time.
//
//   CompressedInput input(std::move(source), "a.gz");
//   while (input.refill()) input.consume(inflate_some(input.data(), input.size()));
//
// Thread rule: one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "athanor/documents/byte_source.h"

namespace athanor::documents {

constexpr size_t kSourceChunkBytes = size_t{1} << 18;

class CompressedInput {
 public:
  CompressedInput(std::unique_ptr<ByteSource> source, std::string name)
      : source_(std::move(source)), name_(std::move(name)), chunk_(kSourceChunkBytes) {}

  // Reads the next chunk if the last one is used up; false at the end.
  bool refill() {
    if (begin_ < end_) return true;
    begin_ = 0;
    end_ = source_->read(chunk_.data(), chunk_.size());
    return end_ > 0;
  }
  const char* data() const { return chunk_.data() + begin_; }
  size_t size() const { return end_ - begin_; }
  void consume(size_t size_bytes) { begin_ += size_bytes; }

  const std::string& name() const { return name_; }
  uint64_t raw_bytes() const { return source_->raw_bytes(); }
  uint64_t position() const { return source_->raw_bytes() - size(); }  // position of data() in the file

 private:
  std::unique_ptr<ByteSource> source_;
  std::string name_;
  std::vector<char> chunk_;
  size_t begin_ = 0, end_ = 0;
};

}  // namespace athanor::documents
