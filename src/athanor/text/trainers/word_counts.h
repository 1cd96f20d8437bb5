// How often each distinct word occurs in a corpus.
//
//   WordCounts counts;  counts.add("the", 1);
//   counts.for_each([&](std::string_view word, int64_t count) { ... });
//
// Thread rule: one thread at a time. Several threads fill one WordCounts each, and add_all() adds them up.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::text::trainers {

class WordCounts {
  struct Word {
    uint64_t begin;  // in bytes_
    uint64_t hash;
    int64_t count;
    uint32_t size_bytes;
  };

 public:
  WordCounts() : table_(1 << 10, kEmpty) {}

  void add(std::string_view word, int64_t count);
  void add_all(const WordCounts& other);
  size_t size() const { return words_.size(); }
  uint64_t memory_bytes() const;
  // What a word adds to that, in the mean.
  static constexpr uint64_t bytes_of(std::string_view word) {
    return word.size() + sizeof(Word) + 4 * sizeof(uint32_t);
  }

  // In order of first appearance.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const Word& word : words_) visit(text_of(word), word.count);
  }

 private:
  static constexpr uint32_t kEmpty = UINT32_MAX;

  std::string_view text_of(const Word& word) const { return {bytes_.data() + word.begin, word.size_bytes}; }
  void grow();

  std::vector<char> bytes_;  // all words, one after the other
  std::vector<Word> words_;
  std::vector<uint32_t> table_;  // open addressing: indices into words_
};

}  // namespace athanor::text::trainers
