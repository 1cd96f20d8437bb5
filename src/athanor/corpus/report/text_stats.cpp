#include "athanor/corpus/report/text_stats.h"

#include <zstd.h>

#include <cmath>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/corpus/heuristics/text_view.h"
#include "athanor/corpus/language/language.h"

namespace athanor::corpus::report {
namespace {

constexpr size_t kStatsChunkBytes = size_t{1} << 20;

uint64_t compressed_bytes(const std::string& text) {
  std::vector<char> out(ZSTD_compressBound(text.size()));
  const size_t size = ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3);
  check(ZSTD_isError(size) == 0, "statistics: zstd: {}", ZSTD_getErrorName(size));
  return size;
}

}  // namespace

void TextStats::add(std::string_view text) {
  ++documents_;
  bytes_ += text.size();
  document_bytes_.add(static_cast<double>(text.size()));
  if (!seen_documents_.insert(hash64(text)).second) ++copies_;
  heuristics::TextView view(text);
  characters_ += view.chars();
  lines_ += view.filled_lines().size();
  for (const heuristics::Word& word : view.words()) {
    if (word.is_punctuation) continue;
    ++words_;
    if (looked_at_ == kStatsWords) continue;
    ++looked_at_;
    seen_words_.insert(hash64(view.of(word)));
  }
  languages_[language::language_of(text)] += text.size();
  if (raw_ >= kStatsBytes) return;
  waiting_ += text;
  if (waiting_.size() < kStatsChunkBytes) return;
  raw_ += waiting_.size();
  compressed_ += compressed_bytes(waiting_);
  waiting_.clear();
}

double TextStats::distinct_words() const {
  return looked_at_ == 0 ? NAN : static_cast<double>(seen_words_.size()) / static_cast<double>(looked_at_);
}

double TextStats::compression() const {
  const uint64_t raw = raw_ + waiting_.size();
  const uint64_t compressed = compressed_ + (waiting_.empty() ? 0 : compressed_bytes(waiting_));
  return raw == 0 ? NAN : static_cast<double>(raw) / static_cast<double>(compressed);
}

}  // namespace athanor::corpus::report
