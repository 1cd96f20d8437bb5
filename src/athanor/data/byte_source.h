// A stream of bytes from a file, decompressed on the way where its name ends in .gz or .zst.
//
//   auto source = open_bytes(system_env(), "corpus/part-0.jsonl.zst");
//   char chunk[65536];
//   while (size_t got = source->read(chunk, sizeof chunk)) use(chunk, got);
//
// Several gzip members or zstd frames one after the other are one stream. Memory is bounded whatever the
// input says (zstd windows above 128 MiB are refused). Thread rule: one thread at a time. Errors: a corrupt,
// truncated or padded file is an Error naming it; a failing disk is an IoError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "athanor/base/file.h"

namespace athanor {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual size_t read(char* out, size_t max_bytes) = 0;  // 0 only at the end
  virtual uint64_t raw_bytes() const = 0;                // compressed bytes consumed so far, for progress
};

enum class SourceCompression { none, gzip, zstd };

SourceCompression compression_of(std::string_view path);      // by its suffix, in any case
std::string_view without_compression(std::string_view path);  // "a.jsonl.gz" -> "a.jsonl"

std::unique_ptr<ByteSource> open_bytes(Env& env, const std::string& path);
std::unique_ptr<ByteSource> bytes_in_memory(std::string_view bytes);  // not copied
std::unique_ptr<ByteSource> decompress(std::unique_ptr<ByteSource> source, SourceCompression compression,
                                       const std::string& name);

}  // namespace athanor
