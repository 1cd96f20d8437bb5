// What repeats in a text: spans that are equal, and n-grams of words or characters.
//
//   Grams grams(word_ids(view.text(), view.words()));
//   while (grams.n() < 4) grams.next();
//   const Grams::Top top = grams.top();   // the 4-gram that comes most often
//
// Words and spans are told apart by 64 bits of XXH3, not by their bytes. Were two different ones to share a hash, the
// second would count as a repeat of the first: of k different ones in a document this happens with a chance of about
// k^2 / 2^65, 3e-8 for a million, and moves a ratio by one span's length. n-grams of words are told apart by the numbers
// of their words, without a hash.
// Thread rule: functions are pure; an object is for one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "athanor/corpus/heuristics/text_view.h"

namespace athanor::corpus::heuristics {

// Numbers keys from 0 in the order of their first appearance.
class KeyTable {
 public:
  void reset(size_t most_keys);  // forgets all, makes room for that many
  uint32_t number_of(uint64_t key);
  uint32_t size() const { return size_; }
  bool add(uint64_t key) {  // whether it is new
    const uint32_t before = size_;
    number_of(key);
    return size_ != before;
  }

 private:
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> numbers_;  // + 1; 0: free
  uint32_t size_ = 0;
  int shift_ = 64;
};

struct Repeats {
  uint32_t spans = 0;  // those that were seen before
  uint64_t chars = 0;  // of those
};
Repeats duplicates_of(std::string_view text, std::span<const Span> spans);

// A number for each item of a sequence, equal for equal ones, from 0 in the order of first appearance.
struct Numbered {
  std::vector<uint32_t> ids;
  uint32_t distinct = 0;
};
Numbered word_ids(std::string_view text, std::span<const Word> words);

// The n-grams of a sequence of numbers, beginning with n = 1.
class Grams {
 public:
  static constexpr uint32_t kOnce = 0xFFFFFFFF;

  explicit Grams(Numbered sequence);

  int n() const { return n_; }
  void next();  // n + 1

  // At each position the number of the gram that begins there: kOnce if it comes nowhere else, else below num_repeated().
  // Empty if the sequence is shorter than n.
  std::span<const uint32_t> grams() const { return grams_; }
  uint32_t num_repeated() const { return static_cast<uint32_t>(counts_.size()); }

  // Most frequent; of several that come equally often the one that comes first. count 0: there are no grams.
  struct Top {
    uint32_t position = 0;
    uint32_t count = 0;
  };
  Top top() const;

 private:
  void count_grams(uint32_t distinct);

  std::vector<uint32_t> ids_, grams_;
  std::vector<uint32_t> repeated_;        // positions of the grams that are not kOnce, ascending
  std::vector<uint32_t> counts_, first_;  // by number of a gram
  KeyTable table_;
  int n_ = 1;
};

// Reads n-grams from the left: one that was read before counts whole, and reading goes on behind it; else it goes on at
// the next position. each(position) is told of those that count. As in datatrove's duplicate n-grams.
template <typename Each>
void for_each_repeat(const Grams& grams, Each&& each) {
  std::vector<bool> seen(grams.num_repeated());
  const std::span<const uint32_t> at = grams.grams();
  for (size_t i = 0; i < at.size();) {
    if (at[i] != Grams::kOnce && seen[at[i]]) {
      each(i);
      i += static_cast<size_t>(grams.n());
    } else {
      if (at[i] != Grams::kOnce) seen[at[i]] = true;
      ++i;
    }
  }
}

// The same for words that are written one after another without a space, so that "ab c" equals "a bc", as datatrove
// compares them.
class JoinedWords {
 public:
  JoinedWords(std::string_view text, std::span<const Word> words, int least_n);
  uint64_t repeated_chars(int n);  // of n-grams, n being at least least_n

 private:
  void find_candidates(size_t least_n);

  std::vector<char> joined_;
  std::vector<uint32_t> byte_offsets_, char_offsets_;  // of each word in joined_, and the end
  std::vector<uint32_t> candidates_;                   // words at which an n-gram may begin that comes twice
  std::vector<bool> shared_;                           // by candidate: its first bytes come elsewhere too
  KeyTable table_;
};

}  // namespace athanor::corpus::heuristics
