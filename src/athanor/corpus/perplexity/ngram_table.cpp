#include "athanor/corpus/perplexity/ngram_table.h"

#include <bit>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::corpus::perplexity {

NgramTable::NgramTable(std::vector<NgramEntry> entries) : entries_(std::move(entries)) {
  base::check(entries_.size() < (uint64_t{1} << 32), "n-grams: got {}, expected fewer than 2^32",
              entries_.size());
  const int bits = std::bit_width(entries_.size() / 4 + 1);
  shift_ = 64 - bits;
  starts_.assign((size_t{1} << bits) + 1, 0);
  for (const NgramEntry& entry : entries_) ++starts_[(entry.key >> shift_) + 1];
  for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
}

const NgramEntry* NgramTable::find(uint64_t key) const {
  if (entries_.empty()) return nullptr;
  const uint64_t first = key >> shift_;
  for (uint32_t i = starts_[first]; i < starts_[first + 1]; ++i)
    if (entries_[i].key >= key) return entries_[i].key == key ? &entries_[i] : nullptr;
  return nullptr;
}

size_t NgramTable::index_of(uint64_t key) const {
  const NgramEntry* const entry = find(key);
  base::check(entry != nullptr, "n-grams: a key is missing");
  return static_cast<size_t>(entry - entries_.data());
}

}  // namespace athanor::corpus::perplexity
