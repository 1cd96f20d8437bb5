#include "athanor/data/byte_source.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>
#include <vector>

#include "athanor/base/check.h"

namespace athanor {
namespace {

constexpr size_t kSourceChunkBytes = size_t{1} << 18;

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

class MemorySource : public ByteSource {
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

class GzipSource : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> source, std::string name)
      : source_(std::move(source)), name_(std::move(name)), chunk_(kSourceChunkBytes) {
    constexpr int kGzipOnly = 15 + 16;
    check(inflateInit2(&stream_, kGzipOnly) == Z_OK, "'{}': zlib does not start", name_);
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  size_t read(char* out, size_t max_bytes) override {
    max_bytes = std::min(max_bytes, kSourceChunkBytes);
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(max_bytes);
    while (stream_.avail_out == max_bytes) {
      if (stream_.avail_in == 0 && !refill()) {
        check(between_members_, "'{}': ends in the middle of its gzip data", name_);
        return 0;
      }
      const int code = inflate(&stream_, Z_NO_FLUSH);
      between_members_ = code == Z_STREAM_END;
      if (between_members_)
        inflateReset(&stream_);  // whatever follows must be a member of its own
      else
        check(code == Z_OK || code == Z_BUF_ERROR, "'{}': corrupt gzip data at byte {}: {}", name_,
              source_->raw_bytes() - stream_.avail_in,
              stream_.msg != nullptr ? stream_.msg : "no reason given");
    }
    return max_bytes - stream_.avail_out;
  }
  uint64_t raw_bytes() const override { return source_->raw_bytes(); }

 private:
  bool refill() {
    stream_.next_in = reinterpret_cast<Bytef*>(chunk_.data());
    stream_.avail_in = static_cast<uInt>(source_->read(chunk_.data(), chunk_.size()));
    return stream_.avail_in > 0;
  }
  std::unique_ptr<ByteSource> source_;
  std::string name_;
  std::vector<char> chunk_;
  z_stream stream_{};
  bool between_members_ = false;
};

class ZstdSource : public ByteSource {
 public:
  ZstdSource(std::unique_ptr<ByteSource> source, std::string name)
      : source_(std::move(source)),
        name_(std::move(name)),
        chunk_(kSourceChunkBytes),
        stream_(ZSTD_createDStream()) {
    check(stream_ != nullptr, "'{}': zstd does not start", name_);
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

  size_t read(char* out, size_t max_bytes) override {
    ZSTD_outBuffer output{out, max_bytes, 0};
    while (output.pos == 0) {
      if (input_.pos == input_.size && !maybe_pending_) {
        input_ = {chunk_.data(), source_->read(chunk_.data(), chunk_.size()), 0};
        if (input_.size == 0) {
          check(between_frames_, "'{}': ends in the middle of its zstd data", name_);
          return 0;
        }
      }
      const size_t code = ZSTD_decompressStream(stream_, &output, &input_);
      check(ZSTD_isError(code) == 0, "'{}': corrupt zstd data at byte {}: {}", name_,
            source_->raw_bytes() - (input_.size - input_.pos), ZSTD_getErrorName(code));
      between_frames_ = code == 0;
      // A full output buffer may hide more bytes that need no further input.
      maybe_pending_ = !between_frames_ && output.pos == output.size;
    }
    return output.pos;
  }
  uint64_t raw_bytes() const override { return source_->raw_bytes(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::string name_;
  std::vector<char> chunk_;
  ZSTD_DStream* stream_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  bool between_frames_ = false, maybe_pending_ = false;
};

bool ends_with(std::string_view path, std::string_view suffix) {
  return path.size() > suffix.size() &&
         std::equal(suffix.rbegin(), suffix.rend(), path.rbegin(),
                    [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

}  // namespace

SourceCompression compression_of(std::string_view path) {
  if (ends_with(path, ".gz")) return SourceCompression::gzip;
  if (ends_with(path, ".zst")) return SourceCompression::zstd;
  return SourceCompression::none;
}

std::string_view without_compression(std::string_view path) {
  const SourceCompression compression = compression_of(path);
  if (compression == SourceCompression::none) return path;
  return path.substr(0, path.size() - (compression == SourceCompression::gzip ? 3 : 4));
}

std::unique_ptr<ByteSource> open_bytes(Env& env, const std::string& path) {
  return decompress(std::make_unique<FileSource>(env.open(path)), compression_of(path), path);
}

std::unique_ptr<ByteSource> bytes_in_memory(std::string_view bytes) {
  return std::make_unique<MemorySource>(bytes);
}

std::unique_ptr<ByteSource> decompress(std::unique_ptr<ByteSource> source, SourceCompression compression,
                                       const std::string& name) {
  if (compression == SourceCompression::gzip) return std::make_unique<GzipSource>(std::move(source), name);
  if (compression == SourceCompression::zstd) return std::make_unique<ZstdSource>(std::move(source), name);
  return source;
}

}  // namespace athanor
