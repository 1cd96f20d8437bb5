// Learns a unigram language model over pieces (Kudo, "Subword regularization", 2018) from counted words. It starts from
// many frequent substrings, fits their probabilities by expectation maximization, and removes the pieces whose removal
// costs the least likelihood, until num_pieces are left.
//
//   UnigramTrainer trainer(words, 8000, num_threads);
//   std::vector<ScoredPiece> pieces = trainer.run(progress);    // best score first
//
// Every character of the words stays a piece, so every word can be split. Sums are formed over fixed blocks of words in
// a fixed order: the result does not depend on the number of threads. Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "athanor/base/thread_pool.h"
#include "athanor/text/models/trie.h"

namespace athanor::text::trainers {

struct ScoredPiece {
  std::string text;
  double score = 0;  // log probability; of frequent_substrings(): the count
};

struct CountedWord {
  std::string text;
  int64_t count;
};

constexpr int64_t kMaxPieceChars = 16;  // SentencePiece's default

// All characters, then the substrings of 2 to max_chars characters that occur at least twice, the largest count times length
// first; at most max_pieces beside the characters.
std::vector<ScoredPiece> frequent_substrings(const std::vector<CountedWord>& words, size_t max_pieces,
                                             int64_t max_chars = kMaxPieceChars);

class UnigramTrainer {
 public:
  UnigramTrainer(std::vector<CountedWord> words, int64_t num_pieces, int num_threads,
                 int64_t max_piece_chars = kMaxPieceChars);

  // `progress` gets the number of pieces that are left after each pruning.
  std::vector<ScoredPiece> run(const std::function<void(int64_t)>& progress);

 private:
  std::vector<double> expected_counts() const;
  void fit();
  void prune();
  void set_pieces(std::vector<ScoredPiece> pieces);
  // The pieces of the best split of a word that does not use the piece `forbidden`.
  void best_cut(std::string_view word, int32_t forbidden, std::vector<int32_t>& ids) const;
  void add_expected(const CountedWord& word, std::vector<double>& counts) const;

  std::vector<CountedWord> words_;
  size_t num_pieces_;
  mutable ThreadPool pool_;
  std::vector<ScoredPiece> pieces_;
  std::vector<bool> is_char_;  // by piece: must stay
  Trie trie_;                  // to indices into pieces_
};

}  // namespace athanor::text::trainers
