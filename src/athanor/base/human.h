// Text for people: quantities with units, and foreign text made safe to show on a terminal.
//
//   human_count(124439808)   "124.4 M"        human_bytes(1288490189)   "1.2 GiB"
//   with_commas(6738415616)  "6,738,415,616"  human_seconds(3723)       "1h02m"
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::base {

std::string human_count(double count);       // 999, 1.2 K, 124.4 M, 6.7 B, 1.3 T
std::string human_bytes(double size_bytes);  // 512 B, 1.2 KiB, 3.4 GiB
std::string human_seconds(double seconds);   // 850 µs, 12 ms, 3.4s, 1m02s, 1h02m, 3d04h
std::string with_commas(int64_t value);
// "512", "64 KiB", "1.5GiB", "2G" (units are powers of 1024, upper or lower case); nullopt for any other text.
std::optional<int64_t> parse_bytes(std::string_view text);

// The text with control characters and bytes that are not UTF-8 replaced by '?', so that file names, channel names and
// messages of other programs cannot steer the terminal.
std::string printable(std::string_view text);

// Columns that printable text takes on a terminal: two for wide East Asian characters, none for combining
// marks.
size_t display_width(std::string_view text);

// The longest beginning that fits into `columns`, in whole characters.
std::string_view fit_columns(std::string_view text, size_t columns);

// The code point at the front of the text and the bytes it takes; {0xfffd, 1} if the text is not UTF-8 there.
struct CodePoint {
  uint32_t value;
  size_t size_bytes;
};
CodePoint first_code_point(std::string_view text);

}  // namespace athanor::base
