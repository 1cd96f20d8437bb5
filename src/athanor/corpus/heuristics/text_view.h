// A text as heuristic rules see it: its words, lines and paragraphs, each found once, when a rule first asks.
//
//   TextView view(document.text);
//   const double share = ratio(duplicates_of(view.text(), view.paragraphs()).chars, view.chars());
//
// A character is a code point. The parts, pinned here since a preset's numbers mean nothing without them:
//   piece      what stands between two spaces (char_kinds.h)
//   word       a piece without the punctuation at both its ends; what is cut off are words too, a run of one mark being
//              one word: «"Well-known...» is «"», «Well-known», «...». Inside a piece nothing is cut: "don't", "3.14".
//              datatrove has spaCy split words, which also cuts "do|n't" and "well|-|known": its counts of words are a
//              few percent higher.
//   line       ends at "\n"; the text after the last one is a line too. filled_lines() are those that are not blank
//   broken line   ends also at \r, \r\n, \v, \f, U+001C to U+001E, U+0085, U+2028, U+2029; none after the last of them
//   paragraph  of the text without the spaces at both ends: what stands between runs of two or more "\n"
// Thread rule: for one thread at a time.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::heuristics {

struct Span {
  uint32_t begin = 0;  // bytes into the text
  uint32_t size = 0;   // bytes
  uint32_t chars = 0;
};

struct Word {
  uint32_t begin = 0;
  uint32_t size = 0;
  uint32_t chars = 0;
  bool has_letter = false;
  bool is_punctuation = false;  // all of it
};

class TextView {
 public:
  explicit TextView(std::string_view text);  // Error for 4 GiB and more; the text must outlive it

  std::string_view text() const { return text_; }
  uint32_t chars() const { return chars_; }
  template <typename Part>
  std::string_view of(const Part& part) const {
    return text_.substr(part.begin, part.size);
  }
  uint32_t chars_of(std::string_view part) const;

  const std::vector<Word>& pieces();
  const std::vector<Word>& words();
  const std::vector<Span>& lines();
  const std::vector<Span>& filled_lines();
  const std::vector<Span>& broken_lines();
  const std::vector<Span>& paragraphs();

 private:
  Span span(size_t begin, size_t end) const;
  Word word(size_t begin, size_t end, uint8_t kinds, bool is_punctuation) const;
  void split_piece(size_t begin, size_t end, uint8_t kinds);
  void add_marks(size_t begin, size_t end);

  std::string_view text_;
  uint32_t chars_ = 0;
  bool ascii_ = false;
  bool has_pieces_ = false, has_words_ = false, has_lines_ = false, has_broken_lines_ = false;
  std::vector<Word> pieces_, words_;
  std::vector<Span> lines_, filled_lines_, broken_lines_, paragraphs_;
};

inline double ratio(double part, double whole) {
  return whole == 0 ? NAN : part / whole;
}

// The ends of broken lines: how many bytes of a line break begin at `at`; 0: none.
size_t line_break_at(std::string_view text, size_t at);

}  // namespace athanor::corpus::heuristics
