// The words of a text as decontamination compares them: hashes, so that no string is kept.
//
//   std::vector<uint64_t> words;
//   normal_words(text, words);
//
// A word is what stands between white space, in lower case (Unicode's simple mapping), without all that is no letter,
// number or combining mark: "Don't" is "dont". An ideograph is a word of its own. What nothing is left of is no word.
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::filters {

void normal_words(std::string_view text, std::vector<uint64_t>& hashes);  // hashes: replaced
std::string lower_text(std::string_view text);  // Unicode's simple mapping; bytes that are not UTF-8 stay

}  // namespace athanor::corpus::filters
