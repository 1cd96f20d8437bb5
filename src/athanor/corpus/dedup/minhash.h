// MinHash: documents with many n-grams of words in common get equal keys.
//
//   const MinHash minhash(DedupOptions{});
//   const std::vector<uint64_t> signature = minhash.signature("the text of a document");
//
// The shingles x of a document are the 64-bit hashes of n words in a row (words.h) with a space between them: XXH64
// with seed 0, or the first eight bytes of SHA-1, little endian. Hash i of a signature is the least of (a_i x + b_i
// mod 2^64) mod (2^61 - 1) over all shingles; a and b are drawn from RandomState(seed), all a from [1, 2^61 - 1)
// before all b from [0, 2^61 - 1). A bucket is hashes_per_bucket hashes in a row, its key XXH3 of them under the
// bucket's number. Two documents whose sets of shingles have Jaccard similarity s share a bucket with probability 1 -
// (1 - s^hashes_per_bucket)^buckets: 0.92 at s = 0.8, 0.56 at 0.7, 0.05 at 0.5 with the defaults.
//
// A text with fewer than n words has one shingle, of all its words; with hash = "sha1" it has none. One without a
// word has none. Without shingles the signature is empty, and the document is a copy of none.
//
// Both hashes give datatrove's signatures (pipeline/dedup/minhash.py with 64 bits) where its word splitter finds the
// same words as words.h: simplified English without "cannot", "gonna" and their like, which NLTK splits. Source:
// Broder, "On the resemblance and containment of documents" (1997); Leskovec et al., "Mining of Massive Datasets",
// ch. 3.
// Thread rule: an object does not change.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "athanor/corpus/dedup/key_method.h"
#include "athanor/corpus/dedup/simplify.h"

namespace athanor::corpus::dedup {

constexpr uint64_t kMersenne61 = (uint64_t{1} << 61) - 1;

class MinHash {
 public:
  explicit MinHash(const DedupOptions& options);

  std::vector<uint64_t> shingles(std::string_view text) const;  // in the order of the text
  std::vector<uint64_t> signature_of(std::span<const uint64_t> shingles) const;
  std::vector<uint64_t> signature(std::string_view text) const { return signature_of(shingles(text)); }
  std::vector<Key> bucket_keys(std::span<const uint64_t> signature) const;

  const std::vector<uint64_t>& a() const { return a_; }
  const std::vector<uint64_t>& b() const { return b_; }

 private:
  Simplifier simplifier_;
  std::vector<uint64_t> a_, b_;
  size_t ngram_, hashes_per_bucket_;
  bool sha1_;
};

}  // namespace athanor::corpus::dedup
