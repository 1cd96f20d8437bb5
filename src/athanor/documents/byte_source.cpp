#include "athanor/documents/byte_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/documents/decompress.h"

namespace athanor::documents {
namespace {

constexpr size_t kCompressionProbeBytes = 16;
constexpr size_t kLeastBytes = 4;  // a shorter file is the beginning of one

class FileSource : public ByteSource {
 public:
  explicit FileSource(std::unique_ptr<ReadableFile> file) : file_(std::move(file)) {}
  size_t read(char* out, size_t max_bytes) override {
    const size_t size_bytes =
        static_cast<size_t>(std::min<uint64_t>(max_bytes, file_->size_bytes() - offset_));
    if (size_bytes > 0) file_->read(offset_, out, size_bytes);
    offset_ += size_bytes;
    return size_bytes;
  }
  uint64_t raw_bytes() const override { return offset_; }

 private:
  std::unique_ptr<ReadableFile> file_;
  uint64_t offset_ = 0;
};

}  // namespace

std::string_view HeadSource::head(size_t max_bytes) {
  waiting_.erase(0, used_);
  used_ = 0;
  size_t have = waiting_.size();
  if (have < max_bytes) waiting_.resize(max_bytes);
  while (have < max_bytes && !fault_) {
    try {
      const size_t got = source_->read(waiting_.data() + have, max_bytes - have);
      if (got == 0) break;
      have += got;
    } catch (const BrokenSource& fault) {
      fault_ = fault;
    }
  }
  waiting_.resize(have);
  return std::string_view(waiting_).substr(0, max_bytes);
}

size_t HeadSource::read(char* out, size_t max_bytes) {
  if (used_ == waiting_.size()) {
    if (fault_) throw BrokenSource(*fault_);
    return source_->read(out, max_bytes);
  }
  const size_t size_bytes = std::min(max_bytes, waiting_.size() - used_);
  std::memcpy(out, waiting_.data() + used_, size_bytes);
  used_ += size_bytes;
  return size_bytes;
}

std::unique_ptr<HeadSource> open_bytes(std::unique_ptr<ByteSource> source, const std::string& name) {
  auto stored = std::make_unique<HeadSource>(std::move(source));
  const SourceCompression found = recognize_compression(stored->head(kCompressionProbeBytes));
  if (found == SourceCompression::none) return stored;
  return std::make_unique<HeadSource>(decompress(std::move(stored), found, name));
}

std::unique_ptr<HeadSource> open_bytes(Env& env, const std::string& path) {
  auto stored = std::make_unique<HeadSource>(std::make_unique<FileSource>(env.open(path)));
  const SourceCompression promised = promised_compression(path);
  const std::string_view head = stored->head(kCompressionProbeBytes);
  if (promised != SourceCompression::none && recognize_compression(head) == SourceCompression::none)
    throw BrokenSource(head.size() < kLeastBytes ? fmt::format("truncated {}", compression_name(promised))
                                                 : "foreign format",
                       fmt::format("'{}': its name promises {} data, but the file does not begin like them",
                                   path, compression_name(promised)),
                       "the file may be cut short or damaged; if it is not compressed, rename it");
  return open_bytes(std::move(stored), path);
}

std::unique_ptr<ByteSource> decompress(std::unique_ptr<ByteSource> source, SourceCompression compression,
                                       const std::string& name, uint64_t max_window_bytes) {
  switch (compression) {
    case SourceCompression::none:
      return source;
    case SourceCompression::gzip:
      return read_gzip(std::move(source), name);
    case SourceCompression::zstd:
      return read_zstd(std::move(source), name, max_window_bytes);
    case SourceCompression::xz:
      return read_xz(std::move(source), name, max_window_bytes);
    case SourceCompression::bzip2:
      return read_bzip2(std::move(source), name);
  }
  fail("'{}': compression {} is none", name, static_cast<int>(compression));
}

}  // namespace athanor::documents
