// Sentences for deduplication.
//
//   const SentenceSplitter splitter;
//   for (const TextRange& sentence : splitter.split("It rains. 下雨了。走吧！")) use(sentence);  // three
//
// A sentence ends where Unicode's UAX #29 says so, in the root locale, by ICU: behind . ? ! 。 ！ ？ and their like with
// the quotes and brackets that close behind them, a full stop not where a small letter follows; and behind a line
// feed. White space that follows belongs to it, so that from the first sentence on the sentences of a text are the
// text; a stretch of white space alone is none. Quotes and brackets that open belong to what they open, while UAX #29
// leaves them to the sentence before where no space is between. (datatrove's splitter is NLTK's trained one, which
// knows abbreviations and needs its model.)
//
// The keys of the method "sentence" are those of n sentences in a row, each simplified (simplify.h), with a space
// between them; a text of fewer sentences has none, nor have n sentences without a word. Source: the C4 corpus
// (Raffel et al. 2020), which keeps one of any three-sentence span; datatrove's sentence_dedup.py.
// Thread rule: an object does not change.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "athanor/corpus/dedup/text_range.h"

namespace athanor::corpus::dedup {

class SentenceSplitter {
 public:
  SentenceSplitter();
  ~SentenceSplitter();
  SentenceSplitter(const SentenceSplitter&) = delete;
  SentenceSplitter& operator=(const SentenceSplitter&) = delete;
  std::vector<TextRange> split(std::string_view text) const;  // Error for 2 GiB and more

 private:
  struct Rules;
  std::unique_ptr<Rules> rules_;
};

}  // namespace athanor::corpus::dedup
