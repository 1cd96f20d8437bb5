#include "athanor/corpus/dedup/substrings.h"

#include <divsufsort.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::corpus::dedup {
namespace {

constexpr size_t kMostBlockBytes = std::numeric_limits<int32_t>::max();

std::vector<int32_t> suffix_array(const std::string& bytes) {
  std::vector<int32_t> suffixes(bytes.size());
  if (bytes.empty()) return suffixes;
  const auto* text = reinterpret_cast<const sauchar_t*>(bytes.data());
  const saint_t code = divsufsort(text, suffixes.data(), static_cast<saidx_t>(bytes.size()));
  base::check(code == 0, "substring: suffix array of {} bytes: got code {}, expected memory for it",
              bytes.size(), code);
  return suffixes;
}

// Where min_bytes in a row begin that occur before.
class RepeatedBegins {
 public:
  RepeatedBegins(const TextBlock& block, uint32_t min_bytes)
      : bytes_(block.bytes()), min_bytes_(min_bytes), whole_(bytes_.size()), repeated_(bytes_.size()) {
    for (size_t i = 0; i < block.count(); ++i)
      for (uint32_t at = block.begin(i); at + uint64_t{min_bytes} <= block.end(i); ++at) whole_[at] = true;
  }

  // Suffixes that begin with the same min_bytes lie side by side in the array.
  std::vector<bool> find() && {
    const std::vector<int32_t> suffixes = suffix_array(bytes_);
    for (size_t from = 0; from < suffixes.size();) {
      size_t to = from + 1;
      while (to < suffixes.size() && alike(suffixes[to - 1], suffixes[to])) ++to;
      if (to > from + 1) mark(std::span(suffixes).subspan(from, to - from));
      from = to;
    }
    return std::move(repeated_);
  }

 private:
  bool alike(int32_t left, int32_t right) const {
    return static_cast<size_t>(std::max(left, right)) + min_bytes_ <= bytes_.size() &&
           std::memcmp(bytes_.data() + left, bytes_.data() + right, min_bytes_) == 0;
  }

  void mark(std::span<const int32_t> alike) {
    auto first = static_cast<uint64_t>(bytes_.size());
    for (const int32_t at : alike)
      if (whole_[static_cast<size_t>(at)]) first = std::min(first, static_cast<uint64_t>(at));
    for (const int32_t at : alike) {
      const auto place = static_cast<size_t>(at);
      if (whole_[place] && place >= first + min_bytes_) repeated_[place] = true;
    }
  }

  const std::string& bytes_;
  uint32_t min_bytes_;
  std::vector<bool> whole_;  // min_bytes from here lie in one text
  std::vector<bool> repeated_;
};

bool is_inside_code_point(const std::string& bytes, uint32_t at) {
  return at < bytes.size() && (static_cast<uint8_t>(bytes[at]) & 0xC0) == 0x80;
}

// Only whole code points, as long as the bytes are UTF-8.
TextRange aligned(const std::string& bytes, TextRange range) {
  while (range.begin < range.end && is_inside_code_point(bytes, range.begin)) ++range.begin;
  while (range.end > range.begin && is_inside_code_point(bytes, range.end)) --range.end;
  return range;
}

}  // namespace

void TextBlock::add(std::string_view text) {
  base::check(text.size() < kMostBlockBytes - bytes_.size(),
              "substring: got a block of {} bytes and a text of {}, expected less than 2 GiB together",
              bytes_.size(), text.size());
  bytes_ += text;
  ends_.push_back(static_cast<uint32_t>(bytes_.size()));
}

std::vector<BlockRange> repeated_substrings(const TextBlock& block, int64_t min_bytes) {
  base::check(min_bytes >= 1, "substring: length: got {} bytes, expected at least 1", min_bytes);
  std::vector<BlockRange> found;
  if (min_bytes > static_cast<int64_t>(block.bytes().size())) return found;
  const auto length = static_cast<uint32_t>(min_bytes);
  const std::vector<bool> repeated = RepeatedBegins(block, length).find();
  for (size_t i = 0; i < block.count(); ++i) {
    const uint32_t begin = block.begin(i), end = block.end(i);
    for (uint32_t at = begin; at < end; ++at) {
      if (!repeated[at]) continue;
      TextRange range = {at, at + length};
      for (; at < std::min(range.end + 1, end); ++at)  // one that begins where the range ends goes on with it
        if (repeated[at]) range.end = at + length;
      range = aligned(block.bytes(), range);
      if (range.size() > 0) found.push_back({i, {range.begin - begin, range.end - begin}});
      --at;
    }
  }
  return found;
}

uint64_t substring_memory(uint64_t text_bytes) {
  // The text, four bytes for each suffix, two bits for each place; libdivsufsort's tables of pairs of bytes.
  return text_bytes * 5 + text_bytes / 4 + (uint64_t{1} << 19);
}

int64_t substring_min_bytes(const DedupOptions& options) {
  return options.min_length > 0 ? options.min_length : kMinSubstringBytes;
}

}  // namespace athanor::corpus::dedup
