// Taking parts out of a text, and whether enough of it is left.
//
//   const std::string left = cut(text, std::vector<TextRange>{{0, 40}, {30, 64}});
//   if (left != text && !LeftOver(DedupOptions{}).enough(left)) drop(left);
//
// Thread rule: cut() is a pure function, a LeftOver does not change.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "athanor/corpus/dedup/dedup_options.h"
#include "athanor/corpus/dedup/sentences.h"
#include "athanor/corpus/dedup/simplify.h"
#include "athanor/corpus/dedup/text_range.h"

namespace athanor::corpus::dedup {

// What is in no range, without white space at the ends; the text as it was if no range has a byte. The ranges come in
// any order and may overlap. Error for one that is not in the text.
std::string cut(std::string_view text, std::span<const TextRange> ranges);

// datatrove's limits for what sentence dedup leaves: at least min_words words (words.h) and min_sentences sentences
// (sentences.h). A document that lost nothing is not asked.
class LeftOver {
 public:
  explicit LeftOver(const DedupOptions& options);
  int64_t count_words(std::string_view text) const;
  int64_t count_sentences(std::string_view text) const;
  bool enough(std::string_view text) const;

 private:
  Simplifier simplifier_;
  SentenceSplitter splitter_;
  int64_t min_words_, min_sentences_;
};

}  // namespace athanor::corpus::dedup
