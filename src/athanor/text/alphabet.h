// The initial alphabet of tokenizer training: the characters that get a token of their own.
//
//   const Alphabet alphabet(words, max_size);
//   alphabet.chars();                  // sorted by code point
//   alphabet.for_each_run(word, [&](std::string_view run) { ... });   // stretches of known characters
//
// The most frequent characters are taken until they cover a share of the text (SentencePiece's character_coverage), at most
// max_size; of equally frequent characters the smallest code points. Thread rule: const methods from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/text/flat_map.h"
#include "athanor/text/trainers/word_counts.h"

namespace athanor::text {

constexpr double kDefaultCoverage = 0.9995;

class Alphabet {
 public:
  Alphabet(const WordCounts& words, int64_t max_size, double coverage = kDefaultCoverage);

  const std::vector<uint32_t>& chars() const { return chars_; }
  bool contains(uint32_t code_point) const { return index_.find(code_point) != nullptr; }
  void for_each_run(std::string_view word, const std::function<void(std::string_view)>& put) const;

 private:
  std::vector<uint32_t> chars_;
  FlatMap<uint8_t> index_;
};

}  // namespace athanor::text
