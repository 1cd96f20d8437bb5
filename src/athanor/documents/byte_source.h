// A stream of bytes from a file, decompressed on the way if its first bytes say that it is compressed.
//
//   auto source = open_bytes(system_env(), "corpus/part-0.jsonl.zst");
//   source->head(100);                                   // the first bytes, without consuming them
//   char chunk[65536];
//   while (size_t got = source->read(chunk, sizeof chunk)) use(chunk, got);
//
// gzip, zstd, xz and bzip2 are recognised by their magic bytes, whatever the name. A name with one of their suffixes
// (.gz .zst .xz .bz2) over other bytes is an Error. Several gzip members, zstd frames, xz or bzip2 streams in a row are
// one stream; zero bytes between and behind gzip members are padding. Memory is bounded, whatever the input demands:
// windows are at most kMaxWindowBytes.
//
// Thread rule: one thread at a time. Errors: BrokenSource naming the file for corrupt or truncated data, a window above
// the limit, a missing dictionary, or other bytes behind the last member, all once the bytes before the fault are read;
// IoError for a failing disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/documents/file_format.h"

namespace athanor::documents {

constexpr uint64_t kMaxWindowBytes = uint64_t{2} << 30;  // zstd --long=31

// The kind is one of a few phrases, so that a report can count them: "truncated gzip", "corrupt zstd" (other bytes
// behind the data, too), "unsupported zstd" (a window above the limit, a dictionary), "foreign format" (not what the
// name promises).
class BrokenSource : public Error {
 public:
  BrokenSource(std::string kind, const std::string& what, const std::string& hint = "")
      : Error(what, hint), kind_(std::move(kind)) {}
  const std::string& kind() const { return kind_; }

 private:
  std::string kind_;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual size_t read(char* out, size_t max_bytes) = 0;  // 0 only at the end
  virtual uint64_t raw_bytes() const = 0;                // compressed bytes consumed so far, for progress
};

// A source whose first bytes can be looked at before they are read. A fault behind them waits for read().
class HeadSource : public ByteSource {
 public:
  explicit HeadSource(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}
  // The next max_bytes bytes, fewer only if the source ends before; valid until the next call.
  std::string_view head(size_t max_bytes);
  size_t read(char* out, size_t max_bytes) override;
  uint64_t raw_bytes() const override { return source_->raw_bytes(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::string waiting_;  // bytes [used_, size) were returned by head() and not yet read
  size_t used_ = 0;
  std::optional<BrokenSource> fault_;
};

std::unique_ptr<HeadSource> open_bytes(Env& env, const std::string& path);
// The same of any source, whose name is for messages.
std::unique_ptr<HeadSource> open_bytes(std::unique_ptr<ByteSource> source, const std::string& name);
std::unique_ptr<ByteSource> decompress(std::unique_ptr<ByteSource> source, SourceCompression compression,
                                       const std::string& name, uint64_t max_window_bytes = kMaxWindowBytes);

}  // namespace athanor::documents
