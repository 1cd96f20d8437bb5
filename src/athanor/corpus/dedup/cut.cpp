#include "athanor/corpus/dedup/cut.h"

#include <algorithm>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/corpus/dedup/words.h"

namespace athanor::corpus::dedup {

std::string cut(std::string_view text, std::span<const TextRange> ranges) {
  std::vector<TextRange> sorted(ranges.begin(), ranges.end());
  std::sort(sorted.begin(), sorted.end());
  std::string out;
  size_t kept = 0;  // behind the last byte that was looked at
  bool cuts = false;
  for (const TextRange& range : sorted) {
    base::check(range.begin <= range.end && range.end <= text.size(),
                "cut: got the range [{}, {}), expected one inside of a text of {} bytes", range.begin,
                range.end, text.size());
    cuts |= range.begin < range.end;
    if (range.begin > kept) out += text.substr(kept, range.begin - kept);
    kept = std::max<size_t>(kept, range.end);
  }
  if (!cuts) return std::string(text);
  out += text.substr(kept);
  return std::string(trimmed(out, {0, static_cast<uint32_t>(out.size())}).of(out));
}

LeftOver::LeftOver(const DedupOptions& options)
    : min_words_(options.min_words), min_sentences_(options.min_sentences) {}

int64_t LeftOver::count_words(std::string_view text) const {
  return static_cast<int64_t>(split_words(simplifier_.simplify(text)).count());
}

int64_t LeftOver::count_sentences(std::string_view text) const {
  return static_cast<int64_t>(splitter_.split(text).size());
}

bool LeftOver::enough(std::string_view text) const {
  return (min_words_ == 0 || count_words(text) >= min_words_) &&
         (min_sentences_ == 0 || count_sentences(text) >= min_sentences_);
}

}  // namespace athanor::corpus::dedup
