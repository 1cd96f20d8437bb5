#include "athanor/text/trainers/word_counts.h"

#include "athanor/base/check.h"
#include "athanor/base/hash.h"

namespace athanor::text::trainers {

void WordCounts::add(std::string_view word, int64_t count) {
  const uint64_t hash = hash64(word);
  size_t i = hash & (table_.size() - 1);
  for (; table_[i] != kEmpty; i = (i + 1) & (table_.size() - 1)) {
    Word& known = words_[table_[i]];
    if (known.hash == hash && text_of(known) == word) {
      known.count += count;
      return;
    }
  }
  check(words_.size() < kEmpty - 1 && word.size() <= UINT32_MAX, "training: {} different words are too many",
        words_.size());
  table_[i] = static_cast<uint32_t>(words_.size());
  words_.push_back({bytes_.size(), hash, count, static_cast<uint32_t>(word.size())});
  bytes_.insert(bytes_.end(), word.begin(), word.end());
  if (words_.size() * 2 > table_.size()) grow();
}

uint64_t WordCounts::memory_bytes() const {
  return bytes_.capacity() + words_.capacity() * sizeof(Word) + table_.capacity() * sizeof(uint32_t);
}

void WordCounts::add_all(const WordCounts& other) {
  other.for_each([this](std::string_view word, int64_t count) { add(word, count); });
}

void WordCounts::grow() {
  table_.assign(table_.size() * 2, kEmpty);
  for (uint32_t w = 0; w < words_.size(); ++w) {
    size_t i = words_[w].hash & (table_.size() - 1);
    while (table_[i] != kEmpty) i = (i + 1) & (table_.size() - 1);
    table_[i] = w;
  }
}

}  // namespace athanor::text::trainers
