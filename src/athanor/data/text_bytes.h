// How many bytes of text a range of a token file stands for, so that a loss can be stated in bits per byte.
//
//   const TextBytes bytes(tokens, table);
//   std::optional<int64_t> n = bytes.of(first, last);
//
// Whole documents count the bytes of their text as it was before any normalizer, where the token file knows them
// (PREFIX.text_bytes). A part of a document counts the same share of them that its tokens have of the document's by the
// table (token_bytes.h). Where the file does not know them, the table alone counts; without a table nothing does.
//
// Thread rule: any thread. What a document's tokens come to is kept, so that the next question is cheap.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "athanor/data/indexed_dataset.h"
#include "athanor/data/token_bytes.h"

namespace athanor {

class TextBytes {
 public:
  TextBytes(std::shared_ptr<const IndexedDataset> tokens, std::shared_ptr<const TokenBytes> table);
  std::optional<int64_t> of(int64_t first, int64_t last) const;

 private:
  int64_t by_table(int64_t first, int64_t last) const;
  int64_t whole_by_table(int64_t document) const;
  double part_of(int64_t document, int64_t first, int64_t last) const;

  std::shared_ptr<const IndexedDataset> tokens_;
  std::shared_ptr<const TokenBytes> table_;  // may be null
  mutable std::mutex mutex_;
  mutable std::unordered_map<int64_t, int64_t> whole_;  // document -> what its tokens come to by the table
};

}  // namespace athanor
