// Cuts documents into words and counts them, on all threads of a pool.
//
//   CorpusWords corpus(WordPattern::gpt2, pool);
//   corpus.add(document);
//   WordCounts counts = corpus.finish();
//
// Long documents are cut where the pattern cuts them whatever follows, so the words are those of the whole
// document. Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/thread_pool.h"
#include "athanor/text/word_counts.h"
#include "athanor/text/word_scanner.h"

namespace athanor::text {

class CorpusWords {
 public:
  // Without a pattern every code point is a word.
  CorpusWords(std::optional<WordPattern> pattern, ThreadPool& pool);

  void add(std::string_view document);
  WordCounts finish();
  int64_t bytes_read() const { return bytes_read_; }

 private:
  void count_pending();
  void count_blocks(const std::vector<std::string_view>& documents);
  void cut(std::string_view document, std::vector<std::string_view>& blocks) const;
  void count_words(std::string_view block, WordCounts& counts) const;

  std::optional<WordPattern> pattern_;
  ThreadPool& pool_;
  std::vector<WordCounts> lanes_;  // one per thread, added up in the end: sums do not depend on who counted
  std::vector<std::string> pending_;  // short documents wait until there is work for every thread
  size_t pending_bytes_ = 0;
  int64_t bytes_read_ = 0;
};

}  // namespace athanor::text
