// Text made simpler, so that copies with other case, punctuation, numbers or accents become equal.
//
//   const Simplifier simplifier;
//   const std::string simple = simplifier.simplify("In 1999, Café \"Zoé\" cost £3.50!");  // in 0 cafe zoe cost £0
//
// The rules, in this order, are those of datatrove's simplify_text (utils/text.py): lower case; a number, with one
// decimal part (. , U+060C U+066B U+2396 to U+2398), becomes 0; punctuation and control characters become spaces;
// white space becomes one space, and none at the ends; the canonical decomposition without nonspacing marks.
// Punctuation is what Unicode calls so (\p{P}, and all of ASCII's) and U+00B4 U+2236 U+2501 U+25BA U+FF5E. (datatrove
// lists characters; these are among them, and what Unicode adds is of scripts that a list forgets.) A byte that is not
// UTF-8 becomes U+FFFD. The tables are ICU's.
//
// ASCII goes through a table of 128 bytes, other characters of the basic plane through one of 128 KiB that the object
// makes. What depends on its surroundings (a capital sigma, marks in an unusual order) sends the whole text through
// simplify_plainly(), which applies one rule after the other. Thread rule: an object does not change.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::dedup {

class Simplifier {
 public:
  Simplifier();
  std::string simplify(std::string_view text) const;

 private:
  // Of a character: the one that takes its place, or one of the marks below, which no character has.
  std::vector<uint16_t> images_;
  std::array<char, 128> ascii_;
};

// The same, rule by rule; more than 2^28 bytes are taken in pieces that end at spaces.
std::string simplify_plainly(std::string_view text);

}  // namespace athanor::corpus::dedup
