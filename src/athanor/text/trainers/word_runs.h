// Counted words beyond what memory holds: sorted runs on a disk, and the words of all of them.
//
//   WordRuns runs({.env = &env, .folder = "tokenizer.json.words", .memory_bytes = 64 << 20});
//   runs.add(counts);                                        // one run; counts may be thrown away
//   runs.for_each([](std::string_view word, int64_t count) { ... });   // each word once, in the order of bytes
//
// What comes out depends on the words alone, not on how they came in runs. The folder belongs to the object, which makes
// it for its first run and removes it at its end; what a killed process left there is removed at the beginning.
// Memory: for_each() takes at most 64 KiB for each of at most 64 runs; where there are more, they are merged before.
// Thread rule: add() from any thread, the rest from one. Errors: IoError of the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/text/trainers/word_counts.h"

namespace athanor::text::trainers {

struct WordMemory {
  Env* env = nullptr;
  std::string folder = {};
  int64_t memory_bytes = 0;  // 0: no limit, and no folder
};

using UseWord = std::function<void(std::string_view word, int64_t count)>;

class WordRuns {
 public:
  explicit WordRuns(WordMemory memory);
  ~WordRuns();
  WordRuns(const WordRuns&) = delete;
  WordRuns& operator=(const WordRuns&) = delete;

  void add(const WordCounts& counts);
  bool empty() const { return paths_.empty(); }
  void for_each(const UseWord& use) const;

 private:
  std::string new_path();

  WordMemory memory_;
  std::mutex mutex_;
  int64_t made_ = 0;
  std::vector<std::string> paths_;
};

// The most frequent words whose WordCounts take at most so many bytes; of equally frequent ones the first in the order of
// bytes. Among them stands how much was left out.
struct KeptWords {
  WordCounts counts;
  int64_t words = 0, all_words = 0;              // distinct ones
  int64_t occurrences = 0, all_occurrences = 0;  // in the text
};
KeptWords most_frequent(const std::function<void(const UseWord&)>& for_each, uint64_t memory_bytes);

}  // namespace athanor::text::trainers
