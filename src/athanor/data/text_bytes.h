// How many bytes of text a range of a token file stands for: the denominator of bits per byte.
//
//   const TextBytes bytes(tokens, table);
//   std::optional<int64_t> n = bytes.of(first, last);
//
// With PREFIX.text_bytes (indexed_dataset.h) a complete document counts the bytes of its text before any normalizer. A
// part of a document counts a share of them: bytes of its tokens over bytes of all the document's tokens, both by the
// table (token_bytes.h). Without PREFIX.text_bytes the bytes by the table count. Without either the answer is none.
//
// Thread rule: any thread. The sums of documents are cached.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>

#include "athanor/data/indexed_dataset.h"
#include "athanor/data/token_bytes.h"

namespace athanor::data {

struct TokenRange {
  int64_t first = 0, last = 0;  // the tokens [first, last)
};

class TextBytes {
 public:
  TextBytes(std::shared_ptr<const IndexedDataset> tokens, std::shared_ptr<const TokenBytes> table);
  std::optional<int64_t> of(int64_t first, int64_t last) const {
    const TokenRange range{first, last};
    return of({&range, 1});
  }
  // Of several ranges together; rounded once.
  std::optional<int64_t> of(std::span<const TokenRange> ranges) const;

 private:
  double sum_of(int64_t first, int64_t last) const;
  int64_t by_table(int64_t first, int64_t last) const;
  int64_t whole_by_table(int64_t document) const;
  double part_of(int64_t document, int64_t first, int64_t last) const;

  std::shared_ptr<const IndexedDataset> tokens_;
  std::shared_ptr<const TokenBytes> table_;  // may be null
  mutable std::mutex mutex_;
  mutable std::unordered_map<int64_t, int64_t> whole_;  // document -> bytes of its tokens by the table
};

}  // namespace athanor::data
