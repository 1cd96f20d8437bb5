// Splits documents into words and counts the words, on all threads of a pool.
//
//   CorpusWords corpus(split_by(WordPattern::gpt2), pool);
//   corpus.add(document);
//   const KeptWords words = corpus.finish(UINT64_MAX);   // all of them
//
// A long document is divided into blocks between a letter and a blank. Every splitter ends a word there, so the words
// are those of the undivided document. Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/thread_pool.h"
#include "athanor/text/pre_tokenizers/word_scanner.h"
#include "athanor/text/trainers/word_counts.h"
#include "athanor/text/trainers/word_runs.h"

namespace athanor::text::trainers {

// Calls the second argument with each word of the first.
using WordSink = std::function<void(std::string_view word)>;
using WordSplitter = std::function<void(std::string_view text, const WordSink& put)>;

// Rewrites a stretch of text that begins at a blank or at the start of a document.
using TextRewriter = std::function<std::string(std::string_view text)>;

WordSplitter split_by(WordPattern pattern);
void split_chars(std::string_view text, const WordSink& put);  // each code point is a word

class CorpusWords {
 public:
  // `normalizer`: what text goes through before it is split; none if it is empty.
  // Words that take more than a quarter of `memory` while they are counted go to its folder.
  CorpusWords(WordSplitter splitter, ThreadPool& pool, TextRewriter normalizer = {}, WordMemory memory = {});

  void add(std::string_view document);
  // The words, and under a limit the most frequent ones that take at most so many bytes.
  KeptWords finish(uint64_t kept_bytes);
  int64_t bytes_read() const { return bytes_read_; }

 private:
  void count_pending();
  std::vector<std::string> normalized(const std::vector<std::string_view>& documents);
  void count_blocks(const std::vector<std::string_view>& documents);
  void count_text(const std::vector<std::string_view>& documents);

  WordSplitter splitter_;
  TextRewriter normalizer_;
  ThreadPool& pool_;
  uint64_t lane_bytes_;  // that the words of a lane may take
  WordRuns runs_;
  std::vector<WordCounts>
      lanes_;  // one per thread, added up at the end, so the number of threads does not matter
  std::vector<std::string> pending_;  // short documents wait until there is work for every thread
  size_t pending_bytes_ = 0;
  int64_t bytes_read_ = 0;
};

}  // namespace athanor::text::trainers
