// A table from the 64-bit keys of n-grams to what a model says of them: sorted entries, and a directory of the places
// where each beginning of a key starts, so that finding one takes about two lines of cache.
//
//   NgramTable table(std::move(entries));             // keys in ascending order, each once
//   if (const NgramEntry* entry = table.find(key)) use(entry->log_prob);
//
// A key is a hash of the n-gram's words from the last to the first: key(w) = hash64(w), key(v w) = mix(key(w), hash64(v)).
// Two of n n-grams share a key with probability n^2 / 2^65: 3 in a million for ten million n-grams. Private to
// perplexity/. Memory: 16 bytes an entry, and about one for the directory. Thread rule: a table does not change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::perplexity {

struct NgramEntry {
  uint64_t key = 0;
  float log_prob = 0.0F;     // natural logarithm of p(last word | those before)
  float log_backoff = 0.0F;  // of the weight of the shorter context where this n-gram is the context
};
static_assert(sizeof(NgramEntry) == 16);

inline uint64_t longer_ngram_key(uint64_t key, uint64_t word_before) {
  uint64_t mixed = key * 0x9E3779B97F4A7C15U + word_before;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9U;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBU;
  return mixed ^ (mixed >> 31);
}

class NgramTable {
 public:
  NgramTable() = default;
  explicit NgramTable(std::vector<NgramEntry> entries);

  const NgramEntry* find(uint64_t key) const;  // null: not there
  size_t index_of(uint64_t key) const;         // of a key that is there
  std::vector<NgramEntry>& entries() { return entries_; }
  const std::vector<NgramEntry>& entries() const { return entries_; }

 private:
  std::vector<NgramEntry> entries_;
  std::vector<uint32_t> starts_;  // of the keys with each value of the first bits; one more at the end
  int shift_ = 63;                // 64 - number of those bits
};

}  // namespace athanor::corpus::perplexity
