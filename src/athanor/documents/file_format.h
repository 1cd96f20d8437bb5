// Recognises the format of a file by its first bytes, whatever its name.
//
//   recognize_compression("\x1f\x8b...")     -> SourceCompression::gzip
//   foreign_format("%PDF-1.7 ...")           -> "a PDF document"
//   foreign_format("plain text")             -> ""
//
// UTF-16 and UTF-32 are recognised with and without a byte-order mark; the other formats by two tables of magic bytes.
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::documents {

enum class SourceCompression { none, gzip, zstd, xz, bzip2 };

// The number of first bytes that the functions here need (fewer if the file is shorter).
constexpr size_t kFormatProbeBytes = size_t{1} << 16;

const char* compression_name(SourceCompression compression);  // "gzip"

SourceCompression recognize_compression(std::string_view head);
// The compression that the suffix names, in upper or lower case: "a.jsonl.GZ" -> gzip.
SourceCompression promised_compression(std::string_view path);
std::string_view without_compression_suffix(std::string_view path);  // "a.jsonl.gz" -> "a.jsonl"

// The name of a format that is not UTF-8 text, for a message; empty if the head may be text. Compressed data is such a
// format, too: the caller has already removed one layer of compression. A zero byte makes it a binary file, unless the
// caller takes some.
std::string foreign_format(std::string_view head, bool takes_zero_bytes = false);

}  // namespace athanor::documents
