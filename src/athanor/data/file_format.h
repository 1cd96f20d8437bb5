// What a file is by its first bytes, whatever its name.
//
//   recognize_compression("\x1f\x8b...")     -> SourceCompression::gzip
//   foreign_format("%PDF-1.7 ...")           -> "a PDF document"
//   foreign_format("plain text")             -> ""
//
// Formats stand in two tables of magic bytes; UTF-16 and UTF-32 are recognised with and without a byte-order mark.
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace athanor {

enum class SourceCompression { none, gzip, zstd, xz, bzip2 };

// As many bytes as the functions here want to see of a file that has them.
constexpr size_t kFormatProbeBytes = size_t{1} << 16;

const char* compression_name(SourceCompression compression);  // "gzip"

SourceCompression recognize_compression(std::string_view head);
// What the suffix promises, in any case of its letters: "a.jsonl.GZ" -> gzip.
SourceCompression promised_compression(std::string_view path);
std::string_view without_compression_suffix(std::string_view path);  // "a.jsonl.gz" -> "a.jsonl"

// What a head is that is not UTF-8 text, as words for a message; empty where it may be text. Compressed data count:
// by the time that this is asked, one layer of compression has been taken off. A zero byte is a binary file.
std::string foreign_format(std::string_view head);

}  // namespace athanor
