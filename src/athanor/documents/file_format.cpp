#include "athanor/documents/file_format.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

namespace athanor::documents {
namespace {

using namespace std::string_view_literals;

struct Magic {
  std::string_view bytes;
  size_t offset;
  const char* what;
  bool only_binary = false;  // words begin like it: a zero byte must stand in the head too
};

constexpr Magic kForeignFormats[] = {
    {"PAR1"sv, 0, "a Parquet file", true},
    {"PARE"sv, 0, "an encrypted Parquet file", true},
    {"ARROW1\0\0"sv, 0, "an Arrow (Feather) file"},
    {"FEA1"sv, 0, "an Arrow (Feather) file", true},
    {"\xff\xff\xff\xff"sv, 0, "an Arrow stream or another binary file"},
    {"ORC"sv, 0, "an ORC file", true},
    {"Obj\x01"sv, 0, "an Avro file"},
    {"SQLite format 3\0"sv, 0, "an SQLite database"},
    {"\x89HDF\r\n\x1a\n"sv, 0, "an HDF5 file"},
    {"\x93NUMPY"sv, 0, "a NumPy array"},
    {"%PDF-"sv, 0, "a PDF document"},
    {"%!PS-Adobe"sv, 0, "a PostScript document"},
    {"{\\rtf"sv, 0, "an RTF document"},
    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, 0, "a document of an old Office program"},
    {"PK\x03\x04"sv, 0, "a zip archive (or a .docx, .xlsx, .epub or .npz, which are zip archives)"},
    {"PK\x05\x06"sv, 0, "an empty zip archive"},
    {"7z\xbc\xaf\x27\x1c"sv, 0, "a 7z archive"},
    {"Rar!\x1a\x07"sv, 0, "a RAR archive"},
    {"ustar"sv, 257, "a tar archive", true},
    {"!<arch>\n"sv, 0, "an ar archive"},
    {"WARC/1."sv, 0, "a WARC archive of a crawl"},
    {"\x1e{"sv, 0, "a JSON text sequence (RFC 7464)"},
    {"\x04\x22\x4d\x18"sv, 0, "lz4-compressed data"},
    {"\x02\x21\x4c\x18"sv, 0, "lz4-compressed data"},
    {"\xff\x06\x00\x00sNaPpY"sv, 0, "snappy-compressed data"},
    {"\x5d\x00\x00"sv, 0, "LZMA-compressed data (the format before .xz)"},
    {"LZIP\x01"sv, 0, "lzip-compressed data"},
    {"\x89LZO\x00\x0d\x0a\x1a\x0a"sv, 0, "lzop-compressed data"},
    {"\x1f\x9d"sv, 0, "data of the program compress (.Z)"},
    {"\x1f\xa0"sv, 0, "data of the program compress (.Z)"},
    {"\x89PNG"sv, 0, "a PNG picture"},
    {"\xff\xd8\xff"sv, 0, "a JPEG picture"},
    {"GIF8"sv, 0, "a GIF picture", true},
    {"\x7f"
     "ELF"sv,
     0, "a program (ELF)"},
};

struct CompressionMagic {
  std::string_view bytes;
  size_t offset;
  SourceCompression compression;
};

constexpr CompressionMagic kCompressions[] = {
    {"\x1f\x8b"sv, 0, SourceCompression::gzip},
    {"\x28\xb5\x2f\xfd"sv, 0, SourceCompression::zstd},
    {"\xfd"
     "7zXZ\0"sv,
     0, SourceCompression::xz},
    {"1AY&SY"sv, 4, SourceCompression::bzip2},                    // behind "BZh" and a digit
    {"\x17\x72\x45\x38\x50\x90"sv, 4, SourceCompression::bzip2},  // nothing compressed
};

bool stands(std::string_view head, std::string_view bytes, size_t offset) {
  return head.size() >= offset + bytes.size() && head.substr(offset, bytes.size()) == bytes;
}

uint32_t unit_at(std::string_view head, size_t at, size_t width, bool big_endian) {
  uint32_t value = 0;
  for (size_t i = 0; i < width; ++i)
    value = value << 8 | static_cast<unsigned char>(head[at + (big_endian ? i : width - 1 - i)]);
  return value;
}

bool is_text_character(uint32_t c) {
  return c >= 0x20 ? c != 0x7F && c < 0x110000 && (c & 0xFFFE) != 0xFFFE
                   : c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

// Whether all of the head is text in units of `width` bytes.
bool reads_as_units(std::string_view head, size_t width, bool big_endian) {
  const size_t units = head.size() / width;
  if (units == 0 || head.size() % width != 0) return false;
  // A few bytes of anything read as such text; then nearly all of it must be plain letters.
  constexpr size_t kFewUnits = 16;
  const auto zeros = static_cast<size_t>(std::count(head.begin(), head.end(), '\0'));
  if (units < kFewUnits && zeros * 4 <= units * 3) return false;
  size_t plain = 0,
         turned = 0;  // letters of the first block, and what those of the other order would read as
  for (size_t i = 0; i < units; ++i) {
    const uint32_t unit = unit_at(head, i * width, width, big_endian);
    plain += unit < 0x100;
    turned += unit >= 0x100 && (unit & 0xFF) == 0;
    const bool surrogate = unit >= 0xD800 && unit < 0xE000;
    if (!surrogate) {
      if (!is_text_character(unit)) return false;
      continue;
    }
    if (width == 4 || unit >= 0xDC00) return false;
    if (++i == units) return head.size() == kFormatProbeBytes;  // the other half is behind the probe
    const uint32_t low = unit_at(head, i * width, width, big_endian);
    if (low < 0xDC00 || low >= 0xE000) return false;
  }
  return width == 4 || plain > turned;
}

// "UTF-16 text (little-endian)" and the like. Without a mark a zero byte must give it away: it stands in every line
// end and space of UTF-16, and in every character of UTF-32.
std::string wide_text(std::string_view head, bool takes_zero_bytes) {
  const auto say = [](size_t width, bool big_endian) {
    return std::string(width == 4 ? "UTF-32" : "UTF-16") + " text (" + (big_endian ? "big" : "little") +
           "-endian)";
  };
  if (head.starts_with("\xff\xfe\0\0"sv)) return say(4, false);
  if (head.starts_with("\0\0\xfe\xff"sv)) return say(4, true);
  if (head.starts_with("\xff\xfe"sv)) return say(2, false);
  if (head.starts_with("\xfe\xff"sv)) return say(2, true);
  const auto zeros = static_cast<size_t>(std::count(head.begin(), head.end(), '\0'));
  constexpr size_t kFewZeros = 8;  // fewer than every so manieth byte
  if (zeros == 0 || (takes_zero_bytes && zeros * kFewZeros < head.size())) return "";
  for (const size_t width : {size_t{4}, size_t{2}})
    for (const bool big_endian : {false, true})
      if (reads_as_units(head, width, big_endian)) return say(width, big_endian);
  return "";
}

bool has_suffix(std::string_view path, std::string_view suffix) {
  return path.size() > suffix.size() &&
         std::equal(suffix.rbegin(), suffix.rend(), path.rbegin(),
                    [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

struct Suffix {
  std::string_view suffix;
  SourceCompression compression;
};
constexpr Suffix kSuffixes[] = {{".gz", SourceCompression::gzip},
                                {".zst", SourceCompression::zstd},
                                {".zstd", SourceCompression::zstd},
                                {".xz", SourceCompression::xz},
                                {".bz2", SourceCompression::bzip2}};

}  // namespace

const char* compression_name(SourceCompression compression) {
  constexpr const char* kNames[] = {"none", "gzip", "zstd", "xz", "bzip2"};
  return kNames[static_cast<size_t>(compression)];
}

SourceCompression recognize_compression(std::string_view head) {
  for (const CompressionMagic& magic : kCompressions)
    if (stands(head, magic.bytes, magic.offset) && (magic.offset == 0 || head.starts_with("BZh")))
      return magic.compression;
  // A frame that zstd skips, 0x184D2A50 to 5F.
  if (head.size() >= 4 && (static_cast<unsigned char>(head[0]) & 0xF0) == 0x50 &&
      head.substr(1, 3) == "\x2a\x4d\x18"sv)
    return SourceCompression::zstd;
  return SourceCompression::none;
}

SourceCompression promised_compression(std::string_view path) {
  for (const Suffix& entry : kSuffixes)
    if (has_suffix(path, entry.suffix)) return entry.compression;
  return SourceCompression::none;
}

std::string_view without_compression_suffix(std::string_view path) {
  for (const Suffix& entry : kSuffixes)
    if (has_suffix(path, entry.suffix)) return path.substr(0, path.size() - entry.suffix.size());
  return path;
}

std::string foreign_format(std::string_view head, bool takes_zero_bytes) {
  if (const auto compression = recognize_compression(head); compression != SourceCompression::none)
    return std::string("data compressed twice (") + compression_name(compression) + " inside)";
  if (std::string wide = wide_text(head, takes_zero_bytes); !wide.empty()) return wide;
  const size_t zero = head.find('\0');
  const bool binary = zero != std::string_view::npos;
  for (const Magic& magic : kForeignFormats)
    if ((binary || !magic.only_binary) && stands(head, magic.bytes, magic.offset)) return magic.what;
  if (binary && !takes_zero_bytes) return "a binary file (a zero byte at " + std::to_string(zero) + ")";
  return "";
}

}  // namespace athanor::documents
