// Learns the merges of byte-pair encoding from counted words: repeatedly, the most frequent pair of neighbours becomes
// a token; of equally frequent pairs the one with the smallest (left id, right id).
//
//   BpeTrainer trainer({"a", "b"}, {});
//   trainer.add_word(std::vector<int32_t>{0, 1, 0, 1}, 10);
//   trainer.run(3, 1, {});          // tokens(): a b ab
//
// The result depends only on the multiset of words. Counts are 64-bit. Each merge touches only the words that
// hold its pair. Memory: about 8 bytes per symbol of the distinct words. Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "athanor/text/flat_map.h"
#include "athanor/text/trainers/merge_queue.h"
#include "athanor/text/trainers/word_lists.h"

namespace athanor::text::trainers {

struct BpeTrainerOptions {
  std::string continuing_subword_prefix = {};  // such as "##"; dropped from the right side of a merge
  std::vector<std::string> forbidden = {};     // texts that no merge may produce: special tokens
  int64_t max_token_length = 0;                // in the tokens that it starts from; 0: any
};

class BpeTrainer {
 public:
  BpeTrainer(std::vector<std::string> tokens, BpeTrainerOptions options);

  void add_word(std::span<const int32_t> symbols, int64_t count);
  // Merges until there are vocab_size tokens or no pair occurs min_frequency times. `progress` gets the number of
  // tokens so far, every now and then.
  void run(int64_t vocab_size, int64_t min_frequency, const std::function<void(int64_t)>& progress);

  const std::vector<std::string>& tokens() const { return tokens_; }  // by id
  const std::vector<std::pair<int32_t, int32_t>>& merges() const { return merges_; }

 private:
  struct Word {
    uint64_t begin;  // in symbols_
    uint32_t size;   // shrinks as pairs are merged
    int64_t count;
  };
  struct Pair {
    int64_t count = 0;
    WordLists::List words = WordLists::kNone;  // in which the pair was seen; it may be gone from some
  };
  // A token that stands before (or behind) the pair that is being merged.
  struct Neighbour {
    int64_t count = 0;
    WordLists::List words = WordLists::kNone;  // where it was met in this merge
  };
  struct Neighbours {
    std::vector<Neighbour> by_token;
    std::vector<int32_t> met;
  };

  void meet(Neighbours& side, int32_t token, uint32_t word, int64_t count);
  template <typename OldPair, typename NewPair>
  void apply(Neighbours& side, const OldPair& old_pair, const NewPair& new_pair);
  void merge(uint64_t pair, int32_t id);
  void merge_in_word(uint32_t word, uint64_t pair, int32_t id);
  std::string joined(uint64_t pair) const;

  BpeTrainerOptions options_;
  std::vector<std::string> tokens_;
  std::vector<int64_t> lengths_;  // of the tokens, in the tokens that it starts from
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<std::pair<int32_t, int32_t>> merges_;
  std::vector<int32_t> symbols_;
  std::vector<Word> words_;
  FlatMap<Pair> pairs_;
  WordLists lists_;
  Neighbours before_, behind_;  // of the current merge
  MergeQueue queue_;
};

}  // namespace athanor::text::trainers
