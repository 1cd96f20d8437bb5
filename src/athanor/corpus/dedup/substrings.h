// Passages that occur before, found by a suffix array: any bytes in a row, wherever they begin.
//
//   TextBlock block;
//   block.add("the first document");
//   block.add("a document with a passage of the first");
//   for (const BlockRange& part : repeated_substrings(block, 9)) use(part);  // " document", "the first"
//
// Of every min_bytes in a row that stand in one text and occur a second time in the block, all but the first are
// found: the union of these, as parts that neither touch nor overlap, without a code point that is not whole. A
// second time means in an earlier text, or earlier in the same one without overlap; so of "ababab..." the first
// min_bytes stay.
//
// Memory: substring_memory() for the block and the work on it, 5.2 bytes for each byte of text, for less than 2 GiB
// of text. A corpus beyond that is worked on in blocks of whole documents, in pairs: an earlier block with a later
// one, each of half the limit, of which the parts of the later one count; the union over all pairs is what one block
// would give. That is quadratic in the number of blocks, so it is for the last pass over a corpus that other methods
// made small.
// Source: Lee et al., "Deduplicating training data makes language models better" (2022); suffix array by
// libdivsufsort (Mori). Thread rule: plain data and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/corpus/dedup/dedup_options.h"
#include "athanor/corpus/dedup/text_range.h"

namespace athanor::corpus::dedup {

// Texts one behind the other.
class TextBlock {
 public:
  void add(std::string_view text);  // Error where the block would reach 2 GiB
  size_t count() const { return ends_.size(); }
  const std::string& bytes() const { return bytes_; }
  uint32_t begin(size_t text) const { return text == 0 ? 0 : ends_[text - 1]; }
  uint32_t end(size_t text) const { return ends_[text]; }

 private:
  std::string bytes_;
  std::vector<uint32_t> ends_;
};

struct BlockRange {
  uint64_t text = 0;     // number in the block
  TextRange range = {};  // in that text
  bool operator==(const BlockRange&) const = default;
};

// In the order of the texts and positions. Error for a length below 1.
std::vector<BlockRange> repeated_substrings(const TextBlock& block, int64_t min_bytes);

uint64_t substring_memory(uint64_t text_bytes);
int64_t substring_min_bytes(const DedupOptions& options);

}  // namespace athanor::corpus::dedup
