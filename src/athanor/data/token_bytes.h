// How many bytes of text a token stands for: for bits per byte.
//
//   const TokenBytes bytes(tokenizer);
//   int64_t n = bytes.of(ids);        // special tokens count 0 bytes
//
// The table is made on first use (it decodes the whole vocabulary). Thread rule: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "athanor/text/tokenizer.h"

namespace athanor::data {

class TokenBytes {
 public:
  explicit TokenBytes(std::shared_ptr<const Tokenizer> tokenizer);
  // Ids that the tokenizer does not know (a padded vocabulary) count 0 bytes.
  int64_t of(std::span<const int32_t> ids) const;

 private:
  void make_table() const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  mutable std::once_flag made_;
  mutable std::vector<int32_t> bytes_;  // [vocab_size]
};

}  // namespace athanor::data
