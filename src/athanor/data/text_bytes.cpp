#include "athanor/data/text_bytes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::data {

TextBytes::TextBytes(std::shared_ptr<const IndexedDataset> tokens, std::shared_ptr<const TokenBytes> table)
    : tokens_(std::move(tokens)), table_(std::move(table)) {}

int64_t TextBytes::by_table(int64_t first, int64_t last) const {
  std::array<int32_t, 4096> ids;
  int64_t total = 0;
  while (first < last) {
    const std::span<int32_t> piece(ids.data(),
                                   static_cast<size_t>(std::min<int64_t>(ids.size(), last - first)));
    tokens_->read(first, piece);
    total += table_->of(piece);
    first += static_cast<int64_t>(piece.size());
  }
  return total;
}

int64_t TextBytes::whole_by_table(int64_t document) const {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = whole_.find(document); found != whole_.end()) return found->second;
  }
  const int64_t total = by_table(tokens_->document_start(document), tokens_->document_start(document + 1));
  const std::scoped_lock lock(mutex_);
  whole_.emplace(document, total);
  return total;
}

// The part of a document's bytes that its tokens in [first, last) stand for.
double TextBytes::part_of(int64_t document, int64_t first, int64_t last) const {
  const int64_t start = tokens_->document_start(document), end = tokens_->document_start(document + 1);
  const auto bytes = static_cast<double>(*tokens_->text_bytes_of(document));
  if (first <= start && last >= end) return bytes;
  const int64_t from = std::max(first, start), to = std::min(last, end);
  const int64_t whole = table_ == nullptr ? 0 : whole_by_table(document);
  // Without a table all tokens count the same.
  if (whole == 0) return bytes * static_cast<double>(to - from) / static_cast<double>(end - start);
  return bytes * static_cast<double>(by_table(from, to)) / static_cast<double>(whole);
}

double TextBytes::sum_of(int64_t first, int64_t last) const {
  double total = 0.0;
  for (int64_t d = tokens_->document_of(first);
       d < tokens_->num_documents() && tokens_->document_start(d) < last; ++d)
    total += part_of(d, first, last);
  return total;
}

std::optional<int64_t> TextBytes::of(std::span<const TokenRange> ranges) const {
  const bool is_told = tokens_->num_documents() > 0 && tokens_->text_bytes_of(0).has_value();
  double total = 0.0;
  for (const auto& [first, last] : ranges) {
    check(first >= 0 && first <= last && last <= tokens_->num_tokens(), "'{}': tokens {} to {} are no range",
          tokens_->prefix(), first, last);
    if (first == last) continue;
    if (!is_told && table_ == nullptr) return std::nullopt;
    total += is_told ? sum_of(first, last) : static_cast<double>(by_table(first, last));
  }
  return std::llround(total);
}

}  // namespace athanor::data
