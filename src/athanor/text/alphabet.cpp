#include "athanor/text/alphabet.h"

#include <algorithm>

#include "athanor/text/unicode.h"

namespace athanor::text {
Alphabet::Alphabet(const WordCounts& words, int64_t max_size, double coverage) {
  FlatMap<int64_t> counts;
  int64_t total = 0;
  words.for_each([&](std::string_view word, int64_t count) {
    for (size_t at = 0; at < word.size();) {
      const CodePoint c = decode_utf8(word, at);
      at += c.size;
      if (c.value == kInvalidByte) continue;
      counts[c.value] += count;
      total += count;
    }
  });
  std::vector<std::pair<int64_t, uint32_t>> ranked;  // (-count, code point)
  counts.for_each([&](uint64_t c, int64_t count) { ranked.emplace_back(-count, static_cast<uint32_t>(c)); });
  std::ranges::sort(ranked);
  int64_t covered = 0;
  for (const auto& [minus_count, c] : ranked) {
    if (static_cast<int64_t>(chars_.size()) >= max_size) break;
    if (static_cast<double>(covered) >= coverage * static_cast<double>(total)) break;
    covered -= minus_count;
    chars_.push_back(c);
  }
  std::ranges::sort(chars_);
  for (const uint32_t c : chars_) index_[c] = 1;
}

void Alphabet::for_each_run(std::string_view word, const std::function<void(std::string_view)>& put) const {
  size_t begin = 0;
  for (size_t at = 0; at < word.size();) {
    const CodePoint c = decode_utf8(word, at);
    if (!contains(c.value)) {
      if (at > begin) put(word.substr(begin, at - begin));
      begin = at + c.size;
    }
    at += c.size;
  }
  if (begin < word.size()) put(word.substr(begin));
}

}  // namespace athanor::text
